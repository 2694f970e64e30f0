// The ownership grid: a row for each queue, a column for each member, and a mark for the owner.
import { duration, short, time, whole } from "../../app/format.js";
import { html, useMemo } from "../../app/html.js";
import { language, t } from "../../app/i18n.js";
import { lagClass } from "../../components/bar.js";
import { rebalanceReason, speaksText } from "../../components/members.js";

const WIDE = 8, WITH_SINCE = 20;

// A member, above its column.
function Head({ member, names, colour, wide }) {
  const { head } = member;
  const badges = html`
    ${member.gone && html`<span class="badge bad">${t("groups.gone")}</span>`}
    ${head?.leaving && html`<span class="badge warn">${t("groups.leaving")}</span>`}
    ${head?.idle && html`<span class="badge warn">${t("groups.idle")}</span>`}`;
  return html`
    <th scope="col" class=${`member ${member.gone ? "is-gone" : ""} ${head?.leaving ? "is-leaving" : ""}`} title=${member.id} data-member=${names[member.id]}>
      <span class=${`chip member-${colour}`} aria-hidden="true"></span>
      <span class="name">${names[member.id]}</span>
      ${wide && html`
        <span class="about mono">${head?.address || ""}</span>
        <span class="about">${t("groups.nQueues", { n: member.queues })}${member.lag === null ? "" : ` · ${t("groups.lagOf", { lag: short(member.lag) })}`}</span>
        <span class="about">${head && html`<span class="make">${head.is_steelyard ? "Steelyard" : head.language || "?"}</span> ${speaksText(head)}`}</span>
        <span class="badges">${badges}</span>`}
      ${!wide && html`<span class="count" title=${t("groups.nQueues", { n: member.queues })}>${member.queues}</span>`}
    </th>`;
}

const Mark = ({ row, colour, broadcast }) => {
  const twice = row.owners.length > 1 && !broadcast;
  return html`<span class=${`mark member-${colour} ${row.move ? "fresh" : ""} ${twice ? "twice" : ""}`}><span class="hidden">${t("groups.owns")}</span>${twice ? html`<b aria-hidden="true">×2</b>` : ""}</span>`;
};

// One queue. It is rendered again only if it changed: most do not, twice a second.
function Row({ row, members, names, colours, nobody, broadcast, since, columns }) {
  const stamp = JSON.stringify([row, columns, lagClass(row.lag)]);
  return useMemo(() => html`
    <tr data-queue=${row.key}>
      <th scope="row" class="queue mono">${row.queue}</th>
      <td class=${`number lag ${lagClass(row.lag)}`}>${short(row.lag)}</td>
      ${members.map((member) => html`
        <td key=${member.id} class=${`cell ${member.gone ? "is-gone" : ""}`}>${row.owners.includes(member.id)
          ? html`<${Mark} row=${row} colour=${colours[member.id]} broadcast=${broadcast} />`
          : row.move?.before === member.id && html`<span class=${`was member-${colours[member.id]}`} title=${t("groups.had")}><span class="hidden">${t("groups.had")}</span></span>`}</td>`)}
      ${nobody && html`<td class="cell">${!row.owners.length && html`<span class="mark nobody">${t("groups.nobody")}</span>`}</td>`}
      ${since && html`<td class="since quiet">${row.last && html`<span class="when">${time(row.last.at_ms)}</span> ${rebalanceReason(row.last.why, names)}${row.last.gap_ms === null ? "" : ` · ${t("groups.gapOf", { gap: duration(row.last.gap_ms) })}`}`}</td>`}
    </tr>`, [stamp]);
}

export function Grid({ picture, names, colours, broadcast, showRetries, onRetries }) {
  const { members } = picture;
  const wide = members.length <= WIDE, since = members.length <= WITH_SINCE;
  const parts = picture.parts.filter((part) => !part.retry);
  const retries = picture.parts.filter((part) => part.retry);
  const nobody = picture.unowned && !broadcast;
  const width = members.length + 2 + (nobody ? 1 : 0) + (since ? 1 : 0);
  const columns = JSON.stringify([members.map((member) => [member.id, names[member.id], colours[member.id], member.gone]), nobody, since, language()]);
  const body = (part) => html`
    <tbody key=${`${part.topic}@${part.broker}`}>
      <tr class="part"><th scope="rowgroup" colspan=${width}>
        <span class="topic">${part.topic}</span> <span class="quiet">${part.broker} · ${t("groups.nQueues", { n: part.rows.length })}${part.lag === null ? "" : ` · ${t("groups.lagOf", { lag: whole(part.lag) })}`}</span>
      </th></tr>
      ${part.rows.map((row) => html`<${Row} key=${row.key} row=${row} members=${members} names=${names} colours=${colours} nobody=${nobody} broadcast=${broadcast} since=${since} columns=${columns} />`)}
    </tbody>`;
  const folded = retries.reduce((sum, part) => sum + part.rows.length, 0);
  return html`
    <div class="scroll grid-box" tabindex="0" role="region" aria-label=${t("groups.grid")}>
      <table class=${`grid ${wide ? "wide" : "narrow"}`}>
        <caption class="hidden">${t("groups.grid")}</caption>
        <thead><tr>
          <th scope="col" class="queue">${t("groups.queue")}</th>
          <th scope="col" class="number lag">${t("groups.lag")}</th>
          ${members.map((member) => html`<${Head} key=${member.id} member=${member} names=${names} colour=${colours[member.id]} wide=${wide} />`)}
          ${nobody && html`<th scope="col" class="member"><span class="chip nobody" aria-hidden="true"></span><span class="name">${t("groups.nobody")}</span></th>`}
          ${since && html`<th scope="col" class="since">${t("groups.since")}</th>`}
        </tr></thead>
        ${parts.map(body)}
        ${showRetries && retries.map(body)}
      </table>
    </div>
    ${folded > 0 && html`<button class="plain fold" aria-expanded=${showRetries} onClick=${onRetries}>${showRetries ? "▾" : "▸"} ${t("groups.retries", { n: folded })}${picture.past ? "" : ` · ${t("groups.lagOf", { lag: whole(retries.reduce((sum, part) => sum + part.lag, 0)) })}`}</button>`}`;
}
