// One dead letter: its attempts, its origin, and its body.
import { path, useGet } from "../../app/api.js";
import { time, whole } from "../../app/format.js";
import { html } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Body, Plain } from "../../components/body.js";
import { Command } from "../../components/command.js";
import { Dialog } from "../../components/dialog.js";
import { Loading, Notes, Problem } from "../../components/status.js";

export function Letter({ group, id, retries, onClose, onResend }) {
  const { value, error, again } = useGet(path`/api/groups/${group}/dead-letters/${id}`);
  return html`
    <${Dialog} title=${t("dead.letter")} onClose=${onClose} wide>
      ${error && html`<${Problem} error=${error} again=${again} />`}
      ${!value && !error && html`<${Loading} />`}
      ${value && html`
        <p>${why(group, value.row, retries)}</p>
        <dl class="particulars">
          <dt>${t("dead.id")}</dt><dd class="mono">${value.row.message.id}</dd>
          <dt>${t("dead.cameFrom")}</dt><dd><${From} row=${value.row} origin=${value.origin} /></dd>
          <dt>${t("dead.liesAt")}</dt><dd class="mono">${`${value.row.message.broker}:${value.row.message.queue}:${value.row.message.offset}`}</dd>
          <dt>${t("dead.born")}</dt><dd>${time(value.row.born_ms, { ms: true })} <span class="quiet mono">${value.born_host}</span></dd>
          <dt>${t("dead.givenUp")}</dt><dd>${time(value.row.message.stored_ms, { ms: true })}</dd>
          ${value.row.error && html`<dt>${t("dead.error")}</dt><dd><${Plain} text=${value.row.error} /></dd>`}
          ${value.resent && html`<dt>${t("dead.resent")}</dt><dd>${time(value.resent.at)} <span class="quiet mono">${value.resent.by}</span></dd>`}
        </dl>
        <${Body} body=${value.body} />
        <details><summary>${t("dead.properties", { n: Object.keys(value.properties).length })}</summary>
          <dl class="particulars mono">${Object.entries(value.properties).map(([name, text]) => html`<dt key=${name}><${Plain} text=${name} /></dt><dd><${Plain} text=${text} /></dd>`)}</dl>
        </details>
        <${Notes} sentences=${value.notes} />
        <${Command} line=${value.command} />
        <div class="row end"><button class="main" onClick=${onResend}>${t("dead.resend")}</button></div>`}
    <//>`;
}

const why = (group, row, retries) => (retries === null || retries === undefined
  ? t("dead.why", { group, n: row.attempts })
  : t("dead.whyOf", { group, n: row.attempts, retries: whole(retries) }));

function From({ row, origin }) {
  if (origin) return html`<a href=${path`/messages/${origin.topic}/${origin.broker}/${origin.queue_id}/${origin.offset}`}>${`${origin.topic} ${origin.broker}:${origin.queue_id}:${origin.offset}`}</a>`;
  return row.topic ? html`<a href=${path`/topics/${row.topic}`}>${row.topic}</a>` : "–";
}
