// One broker: rates, disk, flushing, the last recovery, and its configuration.
import { path, useGet, useLive } from "../app/api.js";
import { ago, bytes, duration, rate, short, time, whole } from "../app/format.js";
import { html, useMemo, useRef } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { DiskMeter, flushWords, LastStart, versionText } from "../components/broker_health.js";
import { Chart } from "../components/chart.js";
import { Command } from "../components/command.js";
import { Fact, Facts, Warnings, Liveness, Loading, Notes, Problem } from "../components/status.js";
import { Table } from "../components/table.js";

const KEPT = 300;
const FIRST = 60;
const axis = (value) => (value < 10 ? String(Number(value.toFixed(1))) : short(value));

// Names and values, one below the other; what is not known is a dash.
const List = ({ rows }) => html`<dl class="list">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? "–"}</dd></div>`)}</dl>`;

function Flow({ flow }) {
  const series = [
    { label: t("brokers.in"), colour: "--series-1", values: flow.put },
    { label: t("brokers.out"), colour: "--series-2", values: flow.delivered },
  ];
  return html`
    <section class="card"><h2>${t("brokers.flow")}</h2>
      <${Chart} times=${flow.times} series=${series} height=${150} format=${axis}
        says=${t("brokers.flowSays", { in: rate(flow.put.at(-1)), out: rate(flow.delivered.at(-1)) })} /></section>`;
}

function StartReport({ health }) {
  const start = health.recovery;
  return html`
    <section class="card"><h2>${t("brokers.lastStart")}</h2>
      <p><${LastStart} health=${health} /></p>
      ${start && html`
        <p>${t(`brokers.startSays.${start.found}`)}</p>
        <${List} rows=${[
          [t("brokers.took"), duration(start.took_ms)],
          [t("brokers.recordsRead"), whole(start.records)],
          [t("brokers.bytesRead"), bytes(start.read_bytes)],
          [t("brokers.cutOff"), bytes(start.cut_bytes)],
          [t("brokers.damages"), whole(health.damages)],
        ]} />`}
    </section>`;
}

function Damages({ lost }) {
  if (!lost.length) return null;
  const columns = [
    { key: "path", name: t("brokers.file"), value: (row) => row.path, cell: (row) => html`<span class="mono">${row.path}</span>` },
    { key: "position", name: t("brokers.position"), number: true, value: (row) => row.position, cell: (row) => whole(row.position) },
    { key: "size", name: t("brokers.bytes"), number: true, value: (row) => row.size_bytes, cell: (row) => whole(row.size_bytes) },
    { key: "messages", name: t("brokers.messagesLost"), number: true, value: (row) => row.messages, cell: (row) => whole(row.messages) },
    { key: "what", name: t("brokers.what"), value: (row) => row.what },
  ];
  return html`
    <section class="card"><h2>${t("brokers.damages")}</h2>
      <${Table} caption=${t("brokers.damages")} columns=${columns} rows=${lost} rowKey=${(row) => `${row.path} ${row.position} ${row.what}`} /></section>`;
}

function Settings({ settings }) {
  const rows = useMemo(() => Object.entries(settings.value?.settings || {}), [settings.value]);
  const columns = [
    { key: "name", name: t("brokers.setting"), value: ([name]) => name, cell: ([name]) => html`<span class="mono">${name}</span>` },
    { key: "value", name: t("brokers.value"), value: ([, value]) => value, cell: ([, value]) => html`<span class="mono">${value}</span>` },
  ];
  return html`
    <section class="card settings"><h2>${t("brokers.settings")}</h2>
      ${settings.error && html`<${Problem} error=${settings.error} again=${settings.again} />`}
      ${settings.value && html`
        <${Table} caption=${t("brokers.settings")} columns=${columns} rows=${rows} rowKey=${([name]) => name} search=${true} sortBy="name" first=${12} />
        <${Command} line=${settings.value.command} />`}
    </section>`;
}

function nothing(now) {
  const none = Array(FIRST).fill(null);
  return { times: none.map((_, place) => now - FIRST + place), put: none, delivered: none };
}

export function OneBroker({ broker }) {
  title(broker);
  const flow = useRef({ times: [], put: [], delivered: [] });
  const live = useLive(path`/api/brokers/${broker}/live`, (data) => {
    const add = (list, value) => [...list, value].slice(-KEPT);
    const now = Date.now() / 1000;
    // Starts with an empty minute, so that two points are not stretched over the whole width.
    const before = flow.current.times.length ? flow.current : nothing(now);
    flow.current = { times: add(before.times, now), put: add(before.put, data.put?.ten_seconds ?? null), delivered: add(before.delivered, data.delivered?.ten_seconds ?? null) };
  });
  const settings = useGet(path`/api/brokers/${broker}/settings`);
  const data = live.value;
  const head = html`
    <p class="crumb"><a href="/brokers">${t("app.brokers")}</a></p>
    <div class="page-head"><div><h1>${broker}</h1><p>${data && html`${data.cluster} · <span class="mono">${data.address}</span>`}</p></div>
      <span class=${`pulse ${live.state}`}>${t("app.live")}</span></div>
    <${Liveness} live=${live} />`;
  if (!data) return html`${head}${!live.failure && html`<${Loading} />`}`;
  const { health } = data;
  const warnings = [];
  if (health.refusal) warnings.push(t("brokers.refuses", { broker, why: health.refusal }));
  if (health.damages) warnings.push(t("brokers.damaged", { n: health.damages, broker }));
  return html`
    ${head}
    <${Facts}>
      <${Fact} name=${t("brokers.version")} value=${versionText(data.product, data.version) ?? "–"} tone="small" />
      <${Fact} name=${t("brokers.up")} value=${duration(data.up_ms)} hint=${time(data.started_at)} />
      <${Fact} name=${t("brokers.in")} value=${rate(data.put?.ten_seconds)} />
      <${Fact} name=${t("brokers.out")} value=${rate(data.delivered?.ten_seconds)} />
      <${Fact} name=${t("brokers.storedToday")} value=${short(data.stored_today)} />
      <${Fact} name=${t("brokers.deliveredToday")} value=${short(data.delivered_today)} />
    <//>
    <${Warnings} sentences=${warnings} />
    <${Flow} flow=${flow.current} />
    <div class="columns">
      <section class="card"><h2>${t("brokers.disk")}</h2>
        <${DiskMeter} health=${health} used=${data.disk_used} />
        <${List} rows=${[
          [t("brokers.log"), data.log_end === null || data.log_start === null ? null : t("brokers.fromTo", { size: bytes(data.log_end - data.log_start), from: whole(data.log_start), to: whole(data.log_end) })],
          [t("brokers.files"), health.log_files === null ? null : whole(health.log_files)],
          [t("brokers.oldest"), data.oldest_at ? `${time(data.oldest_at)} (${ago(data.oldest_at)})` : null],
          [t("brokers.indexBehind"), bytes(data.index_behind_bytes)],
        ]} />
      </section>
      <section class="card"><h2>${t("brokers.flushing")}</h2>
        <${List} rows=${[
          [t("brokers.flushed"), flushWords(health, settings.value)],
          [t("brokers.unsafe"), bytes(health.unflushed_bytes)],
          [t("brokers.flushTook"), duration(health.last_flush_ms)],
          [t("brokers.pageCache"), duration(data.page_cache_ms)],
          [t("brokers.sendsWaiting"), whole(data.sends_waiting)],
          [t("brokers.pullsWaiting"), whole(data.pulls_waiting)],
        ]} />
      </section>
      <${StartReport} health=${health} />
    </div>
    <${Damages} lost=${health.lost} />
    <${Command} line=${data.command} />
    <${Settings} settings=${settings} />
    <${Notes} sentences=${health.recovery ? [] : [t("brokers.note", { brokers: broker })]} />`;
}
