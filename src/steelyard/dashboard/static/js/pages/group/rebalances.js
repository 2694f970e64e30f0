// The rebalances as a list, the newest first: reason, size, duration and moves.
import { duration, time } from "../../app/format.js";
import { html, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { rebalanceReason } from "../../components/members.js";
import { Empty } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { whyOf } from "./timeline.js";

const FIRST = 20;

function Moved({ event, names }) {
  const name = (id) => (id ? names[id] ?? id : t("groups.nobody"));
  const columns = [
    { key: "queue", name: t("groups.queue"), value: (move) => `${move.topic}@${move.broker}:${move.queue}`, cell: (move) => html`<span class="mono">${move.topic}@${move.broker}:${move.queue}</span>` },
    { key: "who", name: t("groups.whoToWhom"), value: (move) => `${name(move.before)} → ${name(move.after)}` },
    { key: "gap", name: t("groups.gap"), number: true, value: (move) => move.gap_ms, cell: (move) => duration(move.gap_ms) },
    { key: "why", name: t("groups.why"), value: (move) => rebalanceReason(move.why, names) },
    { key: "at", name: t("groups.when"), value: (move) => move.at_ms, cell: (move) => time(move.at_ms, { ms: true }) },
  ];
  return html`<${Table} caption=${t("groups.movedQueues")} columns=${columns} rows=${event.moves} rowKey=${(move) => `${move.topic}@${move.broker}:${move.queue}`} first=${50} />`;
}

// "4 queues moved · gap 3 ms at most · took 120 ms"
export function sizeOf(event) {
  return [
    event.moved > 0 && t("groups.nMoved", { n: event.moved }),
    event.moved > 0 && event.least !== null && t("groups.least", { n: event.least }),
    event.taken > 0 && t("groups.nTaken", { n: event.taken }),
    event.freed > 0 && t("groups.nFreed", { n: event.freed }),
    !event.moves.length && t("groups.nothingMoved"),
    event.gap !== null && t("groups.gapAtMost", { gap: duration(event.gap) }),
    event.lasted !== null && t("groups.took", { time: duration(event.lasted) }),
  ].filter(Boolean).join(" · ");
}

function Rebalance({ event, names, here, onGo }) {
  const [open, setOpen] = useState(false);
  return html`
    <li class=${here ? "here" : ""}>
      <button class="plain when" onClick=${() => onGo(event.at)} aria-current=${here ? "true" : undefined} title=${t("groups.showThen")}>${time(event.at, { ms: true })}</button>
      <div class="what"><strong>${whyOf(event, names)}</strong><br /><span class="quiet">${sizeOf(event)}</span>
        ${event.moves.length > 0 && html`<details onToggle=${(change) => setOpen(change.currentTarget.open)}><summary>${t("groups.showQueues", { n: event.moves.length })}</summary>${open && html`<${Moved} event=${event} names=${names} />`}</details>`}
      </div>
    </li>`;
}

export function Rebalances({ events, names, at, event, onGo }) {
  const [all, setAll] = useState(false);
  if (!events.length) return html`<${Empty}>${t("groups.noRebalances")}<//>`;
  const shown = [...events].reverse().slice(0, all ? undefined : FIRST);
  return html`
    <ol class="rebalances">${shown.map((each) => html`<${Rebalance} key=${each.key} event=${each} names=${names} here=${at !== null && each === event} onGo=${onGo} />`)}</ol>
    ${shown.length < events.length && html`<button onClick=${() => setAll(true)}>${t("app.showAll", { n: events.length })}</button>`}`;
}
