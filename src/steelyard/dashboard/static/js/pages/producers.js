// Producers, and the latency of each broker for each of them, live.
import { useLive } from "../app/api.js";
import { ago, duration, shortNames, whole } from "../app/format.js";
import { html, useMemo } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Command } from "../components/command.js";
import { heatClass } from "../components/bar.js";
import { Empty, Fact, Facts, Warnings, Liveness, Loading, Notes } from "../components/status.js";
import { Table } from "../components/table.js";

// Below the first a latency is cool; from the second on it has the hottest colour.
const COOL_MS = 10;
const HOT_MS = 1000;
const FAILED = "it failed";
const took = (ms) => (ms === 0 ? t("producers.noTime") : duration(ms));
const heat = (ms) => heatClass(ms === null ? null : Math.max(0, ms - COOL_MS), HOT_MS - COOL_MS);
const keyOf = (row) => `${row.group} ${row.id}`;
const latencyOf = (row, broker) => row.latency.find((each) => each.broker === broker);
const avoids = (row) => (row.latency || []).filter((each) => each.avoided_ms !== null);

// One producer and one broker: the usual latency, and whatever is wrong, as text.
function Cell({ at }) {
  if (!at) return html`<span class="quiet">${t("producers.unknown")}</span>`;
  return html`
    <div class=${`broker-latency ${heat(at.usual_ms)}`}>
      <strong>${took(at.usual_ms)}</strong> <span class="last">${at.why === FAILED ? t("producers.lastFailed") : t("producers.last", { time: took(at.latency_ms) })}</span>
    </div>
    ${at.avoided_ms !== null && html`<div><span class="badge bad">${t("producers.avoided", { time: duration(at.avoided_ms) })}</span> <span class="why">${at.why}</span></div>`}
    ${at.avoided_ms === null && at.share < 1 && html`<div><span class="badge warn">${t("producers.comingBack")}</span> <span class="why">${at.why}</span></div>`}
    ${at.failures > 0 && html`<div><span class="badge">${t("producers.failed", { n: at.failures })}</span></div>`}`;
}

function LatencyTable({ rows, brokers, names }) {
  const columns = useMemo(() => [
    { key: "producer", name: t("producers.producer"), value: (row) => row.id, cell: (row) => html`<span class="mono" title=${row.id}>${names[row.id]}</span>` },
    { key: "group", name: t("producers.group"), value: (row) => row.group },
    ...brokers.map((broker) => ({
      key: `broker ${broker}`, name: broker, number: false,
      value: (row) => latencyOf(row, broker)?.usual_ms, cell: (row) => html`<${Cell} at=${latencyOf(row, broker)} />`,
    })),
    { key: "reported", name: t("producers.reportedAt"), number: true, value: (row) => row.reported_at, cell: (row) => ago(row.reported_at) },
  ], [brokers.join("\n"), names]);
  return html`<${Table} caption=${t("producers.latency")} columns=${columns} rows=${rows} rowKey=${keyOf} search=${rows.length > 12} sortBy="group" rowClass=${(row) => (avoids(row).length ? "avoids" : "")} />`;
}

// For each avoided broker: how many producers avoid it, and why.
function sentences(rows) {
  const found = new Map();
  for (const row of rows) for (const at of avoids(row)) found.set(at.broker, [...(found.get(at.broker) || []), at.why]);
  return [...found].map(([broker, whys]) => t("producers.avoiding", { n: whys.length, broker, why: [...new Set(whys)].slice(0, 3).join(", ") }));
}

export function Producers() {
  title(t("app.producers"));
  const live = useLive("/api/producers/live");
  const data = live.value;
  const names = useMemo(() => shortNames((data?.producers || []).map((row) => row.id)), [data?.producers.map((row) => row.id).join("\n")]);
  const head = html`
    <div class="page-head"><div><h1>${t("app.producers")}</h1><p>${t("producers.lead")}</p></div>
      <span class=${`pulse ${live.state}`}>${t("app.live")}</span></div>
    <${Liveness} live=${live} />`;
  if (!data) return html`${head}${!live.failure && html`<${Loading} />`}`;
  const rows = data.producers;
  const reporting = rows.filter((row) => row.latency !== null);
  const columns = [
    { key: "group", name: t("producers.group"), value: (row) => row.group },
    { key: "id", name: t("producers.producer"), value: (row) => row.id, cell: (row) => html`<span class="mono" title=${row.id}>${names[row.id]}</span>` },
    { key: "address", name: t("producers.address"), value: (row) => row.address, cell: (row) => html`<span class="mono">${row.address}</span>` },
    { key: "client", name: t("producers.client"), value: (row) => row.client },
    { key: "brokers", name: t("app.brokers"), value: (row) => row.brokers.join(", ") },
    { key: "latency", name: t("producers.latencyColumn"), value: (row) => (row.latency ? 1 : 0), cell: (row) => (row.latency ? t("producers.reported") : html`<span class="quiet">${t("producers.notReported")}</span>`) },
    { key: "seen", name: t("producers.seen"), number: true, value: (row) => row.last_heartbeat_at, cell: (row) => ago(row.last_heartbeat_at) },
  ];
  const notes = [];
  if (rows.length > reporting.length) notes.push(t("producers.note", { n: rows.length - reporting.length }));
  if (data.count > rows.length) notes.push(t("producers.cut", { shown: rows.length, all: data.count }));
  return html`
    ${head}
    <${Facts}>
      <${Fact} name=${t("app.producers")} value=${whole(data.count)} />
      <${Fact} name=${t("producers.groups")} value=${whole(new Set(rows.map((row) => row.group)).size)} />
      <${Fact} name=${t("producers.reporting")} value=${whole(reporting.length)} />
      <${Fact} name=${t("producers.avoidingNow")} value=${whole(rows.filter((row) => avoids(row).length).length)} />
    <//>
    <${Warnings} sentences=${sentences(rows)} />
    <section class="card latency">
      <h2>${t("producers.latency")}</h2>
      ${reporting.length ? html`<${LatencyTable} rows=${reporting} brokers=${data.brokers} names=${names} /><p class="quiet">${t("producers.latencyHint")}</p>` : html`<${Empty}>${t("producers.noLatency")}<//>`}
    </section>
    <section class="card senders">
      <h2>${t("producers.all")}</h2>
      <${Table} caption=${t("producers.all")} columns=${columns} rows=${rows} rowKey=${keyOf} search=${true} sortBy="group" empty=${t("producers.none")} />
    </section>
    <${Notes} sentences=${notes} />
    <${Command} line=${data.command} />`;
}
