// Who sends, and how quick each broker is to each producer: the ledger as a grid, live.
import { useLive } from "../frame/api.js";
import { ago, duration, shortNames, whole } from "../frame/format.js";
import { html, useMemo } from "../frame/html.js";
import { title } from "../frame/shell.js";
import { t } from "../frame/words.js";
import { Command } from "../parts/command.js";
import { heatClass } from "../parts/heat.js";
import { Empty, Fact, Facts, Hazards, Liveness, Loading, Notes } from "../parts/states.js";
import { Table } from "../parts/table.js";

// Below the first an answer is as quick as can be wished; from the second on it is as hot as can be shown.
const COOL_MS = 10;
const HOT_MS = 1000;
const FAILED = "it failed";
const took = (ms) => (ms === 0 ? t("producers.noTime") : duration(ms));
const heat = (ms) => heatClass(ms === null ? null : Math.max(0, ms - COOL_MS), HOT_MS - COOL_MS);
const keyOf = (row) => `${row.group} ${row.id}`;
const standing = (row, broker) => row.ledger.find((each) => each.broker === broker);
const avoids = (row) => (row.ledger || []).filter((each) => each.avoided_ms !== null);

// One producer and one broker: what answers usually take, and everything that is not as it should be, in words.
function Cell({ at }) {
  if (!at) return html`<span class="quiet">${t("producers.unknown")}</span>`;
  return html`
    <div class=${`standing ${heat(at.usual_ms)}`}>
      <strong>${took(at.usual_ms)}</strong> <span class="last">${at.why === FAILED ? t("producers.lastFailed") : t("producers.last", { time: took(at.latency_ms) })}</span>
    </div>
    ${at.avoided_ms !== null && html`<div><span class="badge bad">${t("producers.avoided", { time: duration(at.avoided_ms) })}</span> <span class="why">${at.why}</span></div>`}
    ${at.avoided_ms === null && at.share < 1 && html`<div><span class="badge warn">${t("producers.comingBack")}</span> <span class="why">${at.why}</span></div>`}
    ${at.failures > 0 && html`<div><span class="badge">${t("producers.failed", { n: at.failures })}</span></div>`}`;
}

function Ledger({ rows, brokers, names }) {
  const columns = useMemo(() => [
    { key: "producer", name: t("producers.producer"), value: (row) => row.id, cell: (row) => html`<span class="mono" title=${row.id}>${names[row.id]}</span>` },
    { key: "group", name: t("producers.group"), value: (row) => row.group },
    ...brokers.map((broker) => ({
      key: `broker ${broker}`, name: broker, number: false,
      value: (row) => standing(row, broker)?.usual_ms, cell: (row) => html`<${Cell} at=${standing(row, broker)} />`,
    })),
    { key: "told", name: t("producers.told"), number: true, value: (row) => row.told_at, cell: (row) => ago(row.told_at) },
  ], [brokers.join("\n"), names]);
  return html`<${Table} caption=${t("producers.ledger")} columns=${columns} rows=${rows} rowKey=${keyOf} search=${rows.length > 12} sortBy="group" rowClass=${(row) => (avoids(row).length ? "avoids" : "")} />`;
}

// For each broker that somebody walks around: how many do, and why.
function sentences(rows) {
  const found = new Map();
  for (const row of rows) for (const at of avoids(row)) found.set(at.broker, [...(found.get(at.broker) || []), at.why]);
  return [...found].map(([broker, whys]) => t("producers.avoiding", { n: whys.length, broker, why: [...new Set(whys)].slice(0, 3).join(", ") }));
}

export function Producers() {
  title(t("frame.producers"));
  const live = useLive("/api/producers/live");
  const told = live.value;
  const names = useMemo(() => shortNames((told?.producers || []).map((row) => row.id)), [told?.producers.map((row) => row.id).join("\n")]);
  const head = html`
    <div class="page-head"><div><h1>${t("frame.producers")}</h1><p>${t("producers.lead")}</p></div>
      <span class=${`pulse ${live.state}`}>${t("frame.live")}</span></div>
    <${Liveness} live=${live} />`;
  if (!told) return html`${head}${!live.trouble && html`<${Loading} />`}`;
  const rows = told.producers;
  const telling = rows.filter((row) => row.ledger !== null);
  const columns = [
    { key: "group", name: t("producers.group"), value: (row) => row.group },
    { key: "id", name: t("producers.producer"), value: (row) => row.id, cell: (row) => html`<span class="mono" title=${row.id}>${names[row.id]}</span>` },
    { key: "address", name: t("producers.address"), value: (row) => row.address, cell: (row) => html`<span class="mono">${row.address}</span>` },
    { key: "client", name: t("producers.client"), value: (row) => row.client },
    { key: "brokers", name: t("frame.brokers"), value: (row) => row.brokers.join(", ") },
    { key: "ledger", name: t("producers.ledgerColumn"), value: (row) => (row.ledger ? 1 : 0), cell: (row) => (row.ledger ? t("producers.tells") : html`<span class="quiet">${t("producers.silent")}</span>`) },
    { key: "seen", name: t("producers.seen"), number: true, value: (row) => row.seen_at, cell: (row) => ago(row.seen_at) },
  ];
  const notes = [];
  if (rows.length > telling.length) notes.push(t("producers.note", { n: rows.length - telling.length }));
  if (told.count > rows.length) notes.push(t("producers.cut", { shown: rows.length, all: told.count }));
  return html`
    ${head}
    <${Facts}>
      <${Fact} name=${t("frame.producers")} value=${whole(told.count)} />
      <${Fact} name=${t("producers.groups")} value=${whole(new Set(rows.map((row) => row.group)).size)} />
      <${Fact} name=${t("producers.telling")} value=${whole(telling.length)} />
      <${Fact} name=${t("producers.avoidingNow")} value=${whole(rows.filter((row) => avoids(row).length).length)} />
    <//>
    <${Hazards} sentences=${sentences(rows)} />
    <section class="card ledger">
      <h2>${t("producers.ledger")}</h2>
      ${telling.length ? html`<${Ledger} rows=${telling} brokers=${told.brokers} names=${names} /><p class="quiet">${t("producers.ledgerHint")}</p>` : html`<${Empty}>${t("producers.noLedger")}<//>`}
    </section>
    <section class="card senders">
      <h2>${t("producers.all")}</h2>
      <${Table} caption=${t("producers.all")} columns=${columns} rows=${rows} rowKey=${keyOf} search=${true} sortBy="group" empty=${t("producers.none")} />
    </section>
    <${Notes} sentences=${notes} />
    <${Command} line=${told.command} />`;
}
