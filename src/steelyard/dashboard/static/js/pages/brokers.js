// Brokers: all of them with disk, flushing and last recovery; and one of them in full.
import { path, useLive } from "../app/api.js";
import { bytes, duration, rate, share, whole } from "../app/format.js";
import { html, useRef } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Sparkline } from "../components/chart.js";
import { Command } from "../components/command.js";
import { DiskMeter, Flushing, fullness, LastStart, versionText } from "../components/broker_health.js";
import { Fact, Facts, Warnings, Liveness, Loading, Notes } from "../components/status.js";
import { Table } from "../components/table.js";
import { OneBroker } from "./broker.js";

const KEPT = 60;
const LOOK_AT = 0.8;
const sum = (rows, of) => rows.reduce((all, row) => all + (of(row) || 0), 0);

function sentences(data) {
  const found = [];
  for (const { broker, problem, health, disk_used: used } of data.brokers) {
    const full = fullness(health) ?? used;
    if (problem) found.push(t("brokers.down", { broker, problem }));
    if (health.refusal) found.push(t("brokers.refuses", { broker, why: health.refusal }));
    if (full !== null && full >= LOOK_AT) found.push(t("brokers.full", { broker, share: share(full) }));
    if (health.damages) found.push(t("brokers.damaged", { n: health.damages, broker }));
  }
  return found.concat(data.name_servers.filter((each) => each.problem).map((each) => t("brokers.nameServerDown", { address: each.address, problem: each.problem })));
}

function AllBrokers() {
  title(t("app.brokers"));
  const history = useRef(new Map());
  const live = useLive("/api/brokers/live", (data) => {
    for (const row of data.brokers) {
      const before = history.current.get(row.broker) || [];
      history.current.set(row.broker, [...before, row.in_tps].slice(-KEPT));
    }
  });
  const data = live.value;
  const head = html`
    <div class="page-head"><div><h1>${t("app.brokers")}</h1><p>${t("brokers.lead")}</p></div>
      <span class=${`pulse ${live.state}`}>${t("app.live")}</span></div>
    <${Liveness} live=${live} />`;
  if (!data) return html`${head}${!live.failure && html`<${Loading} />`}`;
  const rows = data.brokers;
  const columns = [
    { key: "broker", name: t("brokers.broker"), value: (row) => row.broker, cell: (row) => html`<a href=${path`/brokers/${row.broker}`}>${row.broker}</a>${row.problem && html` <span class="badge bad">${t("brokers.gone")}</span>`}${row.health.refusal && html` <span class="badge bad">${t("brokers.noWrites")}</span>`}` },
    { key: "cluster", name: t("brokers.cluster"), value: (row) => row.cluster },
    { key: "version", name: t("brokers.version"), value: (row) => versionText(row.product, row.version) },
    { key: "up", name: t("brokers.up"), number: true, value: (row) => row.up_ms, cell: (row) => duration(row.up_ms) },
    { key: "in", name: t("brokers.in"), number: true, value: (row) => row.in_tps, cell: (row) => html`<${Sparkline} values=${history.current.get(row.broker) || []} width=${64} says=${t("brokers.lately", { broker: row.broker })} /> ${rate(row.in_tps)}` },
    { key: "out", name: t("brokers.out"), number: true, value: (row) => row.out_tps, cell: (row) => rate(row.out_tps) },
    { key: "disk", name: t("brokers.disk"), value: (row) => fullness(row.health) ?? row.disk_used, cell: (row) => html`<${DiskMeter} health=${row.health} used=${row.disk_used} />` },
    { key: "flush", name: t("brokers.flushing"), value: (row) => row.health.flush, cell: (row) => html`<${Flushing} health=${row.health} />` },
    { key: "start", name: t("brokers.lastStart"), value: (row) => row.health.recovery?.found, cell: (row) => html`<${LastStart} health=${row.health} />` },
  ];
  const silent = rows.filter((row) => !row.problem && !row.health.recovery);
  const notes = [];
  if (silent.length) notes.push(t("brokers.note", { brokers: silent.map((row) => row.broker).slice(0, 5).join(", ") + (silent.length > 5 ? " …" : "") }));
  if (data.count > rows.length) notes.push(t("brokers.cut", { shown: rows.length, all: data.count }));
  const servers = data.name_servers;
  return html`
    ${head}
    <${Facts}>
      <${Fact} name=${t("brokers.answering")} value=${`${rows.filter((row) => !row.problem).length} / ${data.count}`} />
      <${Fact} name=${t("brokers.nameServers")} value=${`${servers.filter((each) => !each.problem).length} / ${servers.length}`} hint=${servers.map((each) => each.address).join(", ")} />
      <${Fact} name=${t("brokers.in")} value=${rate(sum(rows, (row) => row.in_tps))} />
      <${Fact} name=${t("brokers.out")} value=${rate(sum(rows, (row) => row.out_tps))} />
      <${Fact} name=${t("brokers.logs")} value=${bytes(sum(rows, (row) => row.health.log_bytes))} />
      <${Fact} name=${t("brokers.damages")} value=${rows.some((row) => row.health.damages !== null) ? whole(sum(rows, (row) => row.health.damages)) : "–"} />
    <//>
    <${Warnings} sentences=${sentences(data)} />
    <section class="card brokers">
      <${Table} caption=${t("app.brokers")} columns=${columns} rows=${rows} rowKey=${(row) => `${row.cluster} ${row.broker}`} search=${rows.length > 8} sortBy="broker" />
    </section>
    <${Notes} sentences=${notes} />
    <${Command} line=${data.command} />`;
}

export const Brokers = ({ broker }) => (broker ? html`<${OneBroker} key=${broker} broker=${broker} />` : html`<${AllBrokers} />`);
