// The grid of large groups: each queue is a small box with its owner's number and colour, and its lag as heat below.
import { path } from "../../app/api.js";
import { short, whole } from "../../app/format.js";
import { html, useMemo } from "../../app/html.js";
import { language, t } from "../../app/i18n.js";
import { lagClass } from "../../components/bar.js";
import { speaksText } from "../../components/members.js";
import { Table } from "../../components/table.js";

function Box({ row, numbers, names, colours, chosen, broadcast, reported }) {
  const [owner] = row.owners;
  const stamp = JSON.stringify([row, owner && [numbers[owner], colours[owner]], lagClass(row.lag), chosen, reported, language()]);
  return useMemo(() => {
    const several = row.owners.length > 1 && !broadcast;
    const who = row.owners.map((each) => names[each]).join(", ") || t(reported ? "groups.nobody" : "groups.state.unknown");
    const kind = !owner ? (reported ? "nobody" : "unreported") : several ? "twice" : `member-${colours[owner]}`;
    return html`
      <li data-queue=${row.key} class=${chosen && !row.owners.includes(chosen) ? "dim" : ""} title=${`${row.key} · ${who} · ${t("groups.lagOf", { lag: whole(row.lag) })}`}>
        <span class=${`box ${kind} ${row.move ? "fresh" : ""}`}><span class="hidden">${row.queue}: ${who}</span><span aria-hidden="true">${broadcast ? "∗" : owner ? (several ? "×2" : numbers[owner]) : reported ? "!" : "?"}</span></span>
        <span class=${`under ${lagClass(row.lag)}`}>${short(row.lag)}</span>
      </li>`;
  }, [stamp]);
}

export function Compact({ picture, names, colours, broadcast, chosen, onChoose, showRetries, onRetries }) {
  const numbers = Object.fromEntries(picture.members.map((member, place) => [member.id, place + 1]));
  const parts = picture.parts.filter((part) => !part.retry || showRetries);
  const folded = picture.parts.filter((part) => part.retry).reduce((sum, part) => sum + part.rows.length, 0);
  return html`
    <div class="compact">
      ${parts.map((part) => html`
        <section key=${`${part.topic}@${part.broker}`}>
          <h3><a href=${path`/topics/${part.topic}`}>${part.topic}</a> <span class="quiet">${part.broker} · ${t("groups.nQueues", { n: part.rows.length })}${part.lag === null ? "" : ` · ${t("groups.lagOf", { lag: whole(part.lag) })}`}</span></h3>
          <ul class="boxes">${part.rows.map((row) => html`<${Box} key=${row.key} row=${row} numbers=${numbers} names=${names} colours=${colours} chosen=${chosen} broadcast=${broadcast} reported=${picture.unowned} />`)}</ul>
        </section>`)}
    </div>
    ${folded > 0 && html`<button class="plain fold" aria-expanded=${showRetries} onClick=${onRetries}>${showRetries ? "▾" : "▸"} ${t("groups.retries", { n: folded })}</button>`}
    <${MemberTable} picture=${picture} names=${names} colours=${colours} numbers=${numbers} chosen=${chosen} onChoose=${onChoose} />`;
}

// Members as a table, where there is no room above columns. Choosing one highlights its queues.
function MemberTable({ picture, names, colours, numbers, chosen, onChoose }) {
  const columns = [
    { key: "number", name: "#", number: true, value: (row) => numbers[row.id], cell: (row) => html`<span class=${`box member-${colours[row.id]}`}>${numbers[row.id]}</span>` },
    { key: "name", name: t("groups.member"), value: (row) => names[row.id], cell: (row) => html`<button class="plain" aria-pressed=${chosen === row.id} title=${row.id} onClick=${() => onChoose(chosen === row.id ? null : row.id)}>${names[row.id]}</button>` },
    { key: "queues", name: t("groups.queues"), number: true, value: (row) => row.queues },
    { key: "lag", name: t("groups.lag"), number: true, value: (row) => row.lag, cell: (row) => whole(row.lag) },
    { key: "address", name: t("groups.address"), value: (row) => row.head?.address, cell: (row) => html`<span class="mono">${row.head?.address || "–"}</span>` },
    { key: "make", name: t("groups.make"), value: (row) => row.head && `${row.head.is_steelyard ? "Steelyard" : row.head.language} ${speaksText(row.head)}` },
    { key: "state", name: t("groups.state"), value: (row) => (row.gone ? t("groups.gone") : row.head?.leaving ? t("groups.leaving") : row.head?.idle ? t("groups.idle") : "") },
  ];
  return html`<details class="members"><summary>${t("groups.membersOf", { n: picture.members.length })}</summary>
    <${Table} caption=${t("groups.members")} columns=${columns} rows=${picture.members} rowKey=${(row) => row.id} search sortBy="number" />
  </details>`;
}
