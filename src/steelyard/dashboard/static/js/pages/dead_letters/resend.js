// Sending dead letters again: what would be sent is shown first, then it is done or left alone.
import { path } from "../../frame/api.js";
import { whole } from "../../frame/format.js";
import { html, useEffect } from "../../frame/html.js";
import { t } from "../../frame/words.js";
import { Confirm, useAction } from "../../parts/acting.js";
import { Plain } from "../../parts/body.js";
import { Command } from "../../parts/command.js";
import { Dialog } from "../../parts/dialog.js";
import { Loading, Notes, Problem } from "../../parts/states.js";

export function Resend({ group, wish, about, onClose }) {
  const action = useAction(path`/api/groups/${group}/dead-letters/preview`, path`/api/groups/${group}/dead-letters/resend`);
  useEffect(() => { action.look(wish); }, []);
  const { preview, done, error } = action;
  // Whoever opened it is told whether something was sent.
  const close = () => onClose(done !== null);
  // Of all of them those are meant that were counted.
  const apply = () => action.act(wish.all ? { ...wish, ends: preview.ends } : wish);
  return html`
    <${Dialog} title=${t("dead.resendTo", { group })} onClose=${close} wide>
      ${!preview && !done && !error && html`<${Loading} />`}
      ${error && !preview && html`<${Problem} error=${error} /><div class="row end"><button onClick=${close}>${t("frame.close")}</button></div>`}
      ${preview && html`
        <p role="status"><strong>${t("dead.wouldSend", { n: preview.messages, group })}</strong> ${t("dead.onlyThere")}</p>
        <ul class="letters" tabindex="0" aria-label=${t("dead.messages")}>${preview.rows.map((row) => html`
          <li key=${row.id}><span class="mono">${row.message.id}</span> <span class="quiet">${t("dead.toAfter", { to: row.to ?? "–", n: row.attempts })}</span>
            <span class="beginning mono"><${Plain} text=${row.message.start} />${row.message.is_cut ? " …" : ""}</span></li>`)}</ul>
        ${preview.messages > preview.rows.length && html`<p class="quiet">${t("dead.andMore", { n: whole(preview.messages - preview.rows.length) })}</p>`}
        <${Notes} sentences=${preview.notes} />
        ${preview.messages > 0
          ? html`<${Confirm} action=${{ ...action, reset: close }} about=${about} onApply=${apply} label=${t("dead.resend")} />`
          : html`<${Command} line=${action.command} />`}`}
      ${done && html`
        <p class="done" role="status">✓ ${t("dead.sent", { n: done.messages, group })}</p>
        <${Command} line=${action.command} />
        <div class="row end"><button class="main" onClick=${close}>${t("frame.close")}</button></div>`}
    <//>`;
}
