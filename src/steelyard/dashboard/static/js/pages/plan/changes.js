// What the chosen strategy would change: each queue before and after, queues per member, and why, in sentences.
import { html, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Table } from "../../components/table.js";
import { Mark, partsOf, queueName } from "./member_marks.js";

const FIRST = 60;

export function Changes({ plan, chosen, colours }) {
  return html`
    <section class="card" aria-label=${t("plan.changes")}>
      <h2>${t("plan.changesBy", { strategy: chosen.java_name || chosen.name })}</h2>
      <${Grid} plan=${plan} chosen=${chosen} colours=${colours} />
      <div class="columns">
        <${Shares} plan=${plan} chosen=${chosen} colours=${colours} />
        <${Reasons} plan=${plan} chosen=${chosen} />
      </div>
    </section>`;
}

const nameOf = (plan, place) => (place < 0 ? t("plan.nobodyName") : plan.members[place].name);

// A column for each queue: who has it now above, who would have it below.
function Grid({ plan, chosen, colours }) {
  const mark = (place) => html`<${Mark} place=${place} colour=${place < 0 ? 0 : colours[plan.members[place].name]} />`;
  return html`
    <div class="before-after">
      ${partsOf(plan.queues).map((part) => html`
        <div key=${part.key} class="part">
          <h3>${part.topic} <span class="quiet">${part.broker}</span></h3>
          <ul>${part.numbers.map((number) => {
            const queue = plan.queues[number], then = chosen.owners[number], moves = then !== queue.owner;
            const words = { queue: queueName(queue), before: nameOf(plan, queue.owner), now: nameOf(plan, then) };
            return html`<li key=${number} class=${moves ? "moves" : ""} title=${t(moves ? "plan.queueGoes" : "plan.queueStays", words)}>
              <span class="hidden">${t(moves ? "plan.queueGoes" : "plan.queueStays", words)}</span>
              <span class="id" aria-hidden="true">${queue.queue_id}</span>${mark(queue.owner)}<span class="arrow" aria-hidden="true">${moves ? "↓" : ""}</span>${mark(then)}</li>`;
          })}</ul>
        </div>`)}
    </div>`;
}

function Shares({ plan, chosen, colours }) {
  const rows = plan.members.map((member, place) => ({
    ...member, place, later: chosen.counts[place],
    gets: chosen.changes.filter((change) => change.after === place).length,
    gives: chosen.changes.filter((change) => change.before === place).length,
  }));
  return html`
    <div><h3>${t("plan.shares")}</h3>
    <${Table} caption=${t("plan.shares")} rows=${rows} rowKey=${(row) => row.id} columns=${[
      { key: "name", name: t("plan.member"), value: (row) => row.name, cell: (row) => html`<${Mark} place=${row.place} colour=${colours[row.name]} /> ${row.name} ${row.change !== "stays" && html`<span class=${`badge ${row.change === "joins" ? "good" : "warn"}`}>${t(`plan.change.${row.change}`)}</span>`}` },
      { key: "now", name: t("plan.now"), number: true, value: (row) => row.queues_now },
      { key: "then", name: t("plan.then"), number: true, value: (row) => row.later },
      { key: "gets", name: t("plan.gets"), number: true, value: (row) => row.gets },
      { key: "gives", name: t("plan.gives"), number: true, value: (row) => row.gives },
    ]} /></div>`;
}

function Reasons({ plan, chosen }) {
  const [all, setAll] = useState(false);
  const isRetry = (change) => plan.queues[change.queue].topic.startsWith("%RETRY%");
  const ordered = [...chosen.changes].sort((a, b) => isRetry(a) - isRetry(b));
  const shown = all ? ordered : ordered.slice(0, FIRST);
  const sentence = (change) => t(`plan.why.${change.why}`, {
    queue: queueName(plan.queues[change.queue]), before: nameOf(plan, change.before), now: nameOf(plan, change.after), n: change.by,
  });
  return html`
    <div><h3>${t("plan.reasons")}</h3>
      ${chosen.changes.length === 0 && html`<p class="quiet">${t("plan.nothingMoves")}</p>`}
      <ul class="reasons" tabindex="0" aria-label=${t("plan.reasons")}>
        ${shown.map((change) => html`<li key=${change.queue}>${sentence(change)}</li>`)}
        ${chosen.overlaps.map(([queue, members]) => html`<li key=${`o${queue}`} class="bad">${t("plan.overlap", { queue: queueName(plan.queues[queue]), members: members.map((place) => nameOf(plan, place)).join(", ") })}</li>`)}
        ${chosen.idle.map((place) => html`<li key=${`i${place}`} class="warn">${t("plan.getsNothing", { member: nameOf(plan, place) })}</li>`)}
      </ul>
      ${shown.length < chosen.changes.length && html`<button onClick=${() => setAll(true)}>${t("app.showAll", { n: chosen.changes.length })}</button>`}
    </div>`;
}
