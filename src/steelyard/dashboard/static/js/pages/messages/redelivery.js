// Redelivery of a message: to one group now, or to every group as a copy, with a preview.
import { bytes, duration, whole } from "../../app/format.js";
import { html, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Confirm, useAction } from "../../components/action.js";
import { Plain } from "../../components/body.js";
import { Command } from "../../components/command.js";
import { Problem } from "../../components/status.js";
import { apiOf, linkTo } from "./fields.js";

export const Redelivery = ({ place, about, groups }) => html`
  <section class="card">
    <h2>${t("messages.redeliverTitle")}</h2>
    <datalist id="message-groups">${groups.map((each) => html`<option key=${each} value=${each} />`)}</datalist>
    <${Redeliver} place=${place} about=${about} />
    <${Resend} place=${place} about=${about} />
  </section>`;

function Redeliver({ place, about }) {
  const [group, setGroup] = useState("");
  const [member, setMember] = useState("");
  const action = useAction(`${apiOf(place)}/redeliver/preview`, `${apiOf(place)}/redeliver`);
  const { preview, done } = action;
  const wanted = { group: group.trim(), member: member || null };
  const pick = (event) => { setMember(event.target.value); action.showPreview({ ...wanted, member: event.target.value || null }); };
  return html`
    <form class="again" onSubmit=${(event) => { event.preventDefault(); setMember(""); action.showPreview({ ...wanted, member: null }); }}>
      <h3>${t("messages.redeliver")}</h3>
      <p class="quiet">${t("messages.redeliverAbout")}</p>
      <div class="row fields">
        <label class="field">${t("messages.group")}<input name="group" list="message-groups" required value=${group} onInput=${(event) => setGroup(event.target.value)} autocomplete="off" /></label>
        <button disabled=${action.busy}>${t("app.preview")}</button>
      </div>
    </form>
    ${!preview && action.error && html`<${Problem} error=${action.error} />`}
    ${preview && !preview.member && html`<p class="problem" role="status">${t("messages.nobody", { group: preview.group })}</p>`}
    ${preview && preview.member && html`
      <div class="preview" role="status">
        <p>${t("messages.wouldHandle", { member: preview.member, group: preview.group })}
          ${preview.is_past !== null && html` ${t(preview.is_past ? "messages.groupIsPast" : "messages.groupIsNotPast", { committed: whole(preview.committed) })}`}</p>
        ${preview.members.length > 1 && html`
          <label class="field">${t("messages.member")}<select value=${member} onChange=${pick}>
            <option value="">${t("messages.anyMember")}</option>
            ${preview.members.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`}
        <${Confirm} action=${action} about=${about} label=${t("messages.redeliverNow")} onApply=${() => action.act(wanted)} />
      </div>`}
    ${done && html`
      <p role="status" class=${done.is_done ? "good" : "bad"}>${t("messages.handled", { member: done.member, took: duration(done.took_ms) })} ${t(`messages.outcome.${done.outcome.replaceAll(" ", "")}`)}${done.remark ? html`: <${Plain} text=${done.remark} />` : ""}</p>
      <${Command} line=${action.command} />`}`;
}

function Resend({ place, about }) {
  const [to, setTo] = useState("");
  const action = useAction(`${apiOf(place)}/resend/preview`, `${apiOf(place)}/resend`);
  const { preview, done } = action;
  const wanted = { to: to.trim() || null };
  return html`
    <form class="again" onSubmit=${(event) => { event.preventDefault(); action.showPreview(wanted); }}>
      <h3>${t("messages.resend")}</h3>
      <p class="quiet">${t("messages.resendAbout")}</p>
      <div class="row fields">
        <label class="field">${t("messages.toTopic")}<input name="to" list="message-topics" value=${to} placeholder=${place.topic} onInput=${(event) => setTo(event.target.value)} autocomplete="off" /></label>
        <button disabled=${action.busy}>${t("app.preview")}</button>
      </div>
    </form>
    ${!preview && action.error && html`<${Problem} error=${action.error} />`}
    ${preview && html`
      <div class="preview" role="status">
        <p>${t("messages.wouldSend", { size: bytes(preview.size), topic: preview.to, keys: preview.keys.length, properties: preview.properties })}
          ${" "}${preview.groups.length ? t("messages.wouldReach", { groups: preview.groups.join(", ") }) : t("messages.noReaders")}</p>
        <${Confirm} action=${action} about=${about} label=${t("messages.resendNow")} onApply=${() => action.act(wanted)} />
      </div>`}
    ${done && html`
      <p role="status" class="good">${t("messages.sent")} <a href=${linkTo(done)}>${done.topic} ${done.broker}:${done.queue}:${done.offset}</a></p>
      <${Command} line=${action.command} />`}`;
}
