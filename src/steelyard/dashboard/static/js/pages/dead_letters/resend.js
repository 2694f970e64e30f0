// Resending dead letters, with a preview.
import { path } from "../../app/api.js";
import { whole } from "../../app/format.js";
import { html, useEffect } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Confirm, useAction } from "../../components/action.js";
import { Plain } from "../../components/body.js";
import { Command } from "../../components/command.js";
import { Dialog } from "../../components/dialog.js";
import { Loading, Notes, Problem } from "../../components/status.js";

export function Resend({ group, wish, about, onClose }) {
  const action = useAction(path`/api/groups/${group}/dead-letters/preview`, path`/api/groups/${group}/dead-letters/resend`);
  useEffect(() => { action.showPreview(wish); }, []);
  const { preview, done, error } = action;
  // The caller learns whether something was sent.
  const close = () => onClose(done !== null);
  // "All" means those that the preview counted.
  const apply = () => action.act(wish.all ? { ...wish, ranges: preview.ranges } : wish);
  return html`
    <${Dialog} title=${t("dead.resendTo", { group })} onClose=${close} wide>
      ${!preview && !done && !error && html`<${Loading} />`}
      ${error && !preview && html`<${Problem} error=${error} /><div class="row end"><button onClick=${close}>${t("app.close")}</button></div>`}
      ${preview && html`
        <p role="status"><strong>${t("dead.wouldSend", { n: preview.messages, group })}</strong> ${t("dead.onlyThere")}</p>
        <ul class="letters" tabindex="0" aria-label=${t("dead.messages")}>${preview.rows.map((row) => html`
          <li key=${row.id}><span class="mono">${row.message.id}</span> <span class="quiet">${t("dead.toAfter", { to: row.topic ?? "–", n: row.attempts })}</span>
            <span class="beginning mono"><${Plain} text=${row.message.preview} />${row.message.is_truncated ? " …" : ""}</span></li>`)}</ul>
        ${preview.messages > preview.rows.length && html`<p class="quiet">${t("dead.andMore", { n: whole(preview.messages - preview.rows.length) })}</p>`}
        <${Notes} sentences=${preview.notes} />
        ${preview.messages > 0
          ? html`<${Confirm} action=${{ ...action, reset: close }} about=${about} onApply=${apply} label=${t("dead.resend")} />`
          : html`<${Command} line=${action.command} />`}`}
      ${done && html`
        <p class="done" role="status">✓ ${t("dead.sent", { n: done.messages, group })}</p>
        <${Command} line=${action.command} />
        <div class="row end"><button class="main" onClick=${close}>${t("app.close")}</button></div>`}
    <//>`;
}
