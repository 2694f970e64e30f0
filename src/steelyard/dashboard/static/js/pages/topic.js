// One topic: its queues and their skew, its brokers, and its consumer groups.
import { path, query as asked, useLive } from "../app/api.js";
import { ago, rate, share, short, time, whole } from "../app/format.js";
import { html, useMemo, useState } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Bar } from "../components/bar.js";
import { Command } from "../components/command.js";
import { RateHistory } from "../components/rate_history.js";
import { Fact, Facts, Warnings, Liveness, Loading, Notes } from "../components/status.js";
import { Table } from "../components/table.js";
import { DeleteTopic, SendMessage, TopicSettings } from "./topic_changes.js";
import { permissionText } from "./topics.js";

export function Topic({ topic, about }) {
  title(topic);
  const [change, setChange] = useState(null);
  const shared = { topic, about, onClose: () => setChange(null) };
  const live = useLive(path`/api/topics/${topic}/live`);
  const seen = live.value;
  return html`
    <p class="crumb"><a href="/topics">${t("topics.title")}</a></p>
    <div class="page-head">
      <h1>${topic} ${seen && seen.kind !== "users" ? html`<span class="badge">${t(`topics.kind.${seen.kind}`)}</span>` : ""}</h1>
      <div class="row">
        ${seen && html`<span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${time(seen.at_ms)}</span>`}
        <a class="button" href=${`/messages${asked({ topic })}`}>${t("topics.messagesOf")}</a>
        <a class="button" href=${`/messages${asked({ topic, tail: "1" })}`}>${t("topics.tail")}</a>
        ${seen?.kind === "users" && html`
          <button onClick=${() => setChange("send")}>${t("topics.send")}</button>
          <button onClick=${() => setChange("settings")}>${t("topics.settings")}</button>
          <button class="bad" onClick=${() => setChange("delete")}>${t("topics.delete")}</button>`}
      </div>
    </div>
    ${change === "send" && html`<${SendMessage} ...${shared} />`}
    ${change === "settings" && html`<${TopicSettings} ...${shared} brokers=${seen.brokers} />`}
    ${change === "delete" && html`<${DeleteTopic} ...${shared} />`}
    <${Liveness} live=${live} />
    ${seen ? html`<${Body} seen=${seen} />` : !live.failure && html`<${Loading} />`}`;
}

function Body({ seen }) {
  return html`
    <${Facts}>
      <${Fact} name=${t("topics.in")} value=${rate(seen.in_rate)} />
      <${Fact} name=${t("topics.messages")} value=${short(seen.messages)} hint=${whole(seen.messages)} />
      <${Fact} name=${t("topics.queues")} value=${whole(seen.queues.length)} />
      <${Fact} name=${t("topics.groups")} value=${whole(seen.groups.length + seen.groups_more)} />
      <${Fact} name=${t("topics.stored")} value=${ago(seen.stored_ms)} hint=${time(seen.stored_ms)} />
      <${Fact} name=${t("topics.permissions")} value=${[...new Set(seen.brokers.map((each) => permissionText(each.permission)))].join(" · ")} />
    <//>
    ${seen.hot_queue && html`<${Warnings} sentences=${[seen.hot_queue]} />`}
    <${RateHistory} url=${path`/api/topics/${seen.topic}/rates`} rateName=${t("topics.in")} />
    <${Queues} seen=${seen} />
    <div class="columns">
      <${Readers} seen=${seen} />
      <${Parts} rows=${seen.brokers} />
    </div>
    <${Notes} sentences=${seen.notes} />
    ${seen.commands.map((line) => html`<${Command} key=${line} line=${line} />`)}`;
}

function Queues({ seen }) {
  const fair = seen.queues.length ? 1 / seen.queues.length : 1;
  const most = useMemo(() => [
    Math.max(fair, ...seen.queues.map((each) => each.share ?? 0)),
    Math.max(fair, ...seen.queues.map((each) => each.in_share ?? 0)),
  ], [seen]);
  const tone = (part) => (part !== null && seen.queues.length > 1 && part >= 2 * fair ? "warn" : "");
  const columns = [
    { key: "queue", name: t("topics.queue"), value: (row) => `${row.broker}:${String(row.queue).padStart(6, "0")}`, cell: (row) => `${row.broker}:${row.queue}` },
    { key: "first", name: t("topics.first"), number: true, value: (row) => row.min_offset, cell: (row) => whole(row.min_offset) },
    { key: "next", name: t("topics.next"), number: true, value: (row) => row.max_offset, cell: (row) => whole(row.max_offset) },
    { key: "share", name: t("topics.share"), number: true, value: (row) => row.messages, cell: (row) => html`<${Bar} value=${(row.share ?? 0) / most[0]} label=${part(row.messages, row.share)} tone=${tone(row.share)} />` },
    { key: "rate", name: t("topics.inNow"), number: true, value: (row) => row.in_rate, cell: (row) => html`<${Bar} value=${(row.in_share ?? 0) / most[1]} label=${partOfRate(row)} tone=${tone(row.in_share) || "second"} />` },
    { key: "stored", name: t("topics.stored"), number: true, value: (row) => row.stored_ms, cell: (row) => html`<span title=${time(row.stored_ms)}>${ago(row.stored_ms)}</span>` },
    { key: "last", name: t("topics.last"), cell: (row) => (row.messages ? html`<a href=${path`/messages/${seen.topic}/${row.broker}/${row.queue}/${row.max_offset - 1}`} aria-label=${t("topics.lastOf", { queue: `${row.broker}:${row.queue}` })}>${t("topics.look")}</a>` : "") },
  ];
  return html`
    <section class="card"><h2>${t("topics.queues")}</h2>
      <p class="quiet skew">${t("topics.skew", { sentence: seen.skew })}${seen.order ? ` ${t("topics.order", { list: seen.order })}` : ""}</p>
      <${Table} caption=${t("topics.queues")} columns=${columns} rows=${seen.queues} rowKey=${(row) => `${row.broker}:${row.queue}`} sortBy="queue" />
    </section>`;
}

const percent = (part) => (part === null ? "" : ` · ${share(part)}`);
const part = (count, share) => `${short(count)}${percent(share)}`;
const partOfRate = (row) => `${rate(row.in_rate)}${percent(row.in_share)}`;

function Readers({ seen }) {
  const most = Math.max(1, ...seen.groups.map((each) => each.lag ?? 0));
  const columns = [
    { key: "name", name: t("topics.group"), value: (row) => row.name, cell: (row) => html`<a href=${path`/groups/${row.name}`}>${row.name}</a>${row.problem ? html` <span class="badge bad" title=${row.problem}>${t("topics.unseen")}</span>` : ""}` },
    { key: "lag", name: t("topics.lag"), number: true, value: (row) => row.lag, cell: (row) => html`<${Bar} value=${(row.lag ?? 0) / most} label=${whole(row.lag)} />` },
    { key: "done", name: t("topics.done"), number: true, value: (row) => row.out_rate, cell: (row) => rate(row.out_rate) },
    { key: "members", name: t("topics.members"), number: true, value: (row) => row.members, cell: (row) => (row.members === 0 ? html`<span class="badge warn">${t("topics.nobody")}</span>` : whole(row.members)) },
  ];
  return html`
    <section class="card"><h2>${t("topics.readers")}</h2>
      <${Table} caption=${t("topics.readers")} columns=${columns} rows=${seen.groups} rowKey=${(row) => row.name} sortBy="lag" descending empty=${t("topics.noReaders")} />
      ${seen.groups_more > 0 && html`<p class="quiet">${t("topics.moreReaders", { n: seen.groups_more })}</p>`}
    </section>`;
}

function Parts({ rows }) {
  const columns = [
    { key: "broker", name: t("topics.broker"), value: (row) => row.broker, cell: (row) => html`<a href=${path`/brokers/${row.broker}`}>${row.broker}</a>` },
    { key: "queues", name: t("topics.readWriteQueues"), number: true, value: (row) => row.read_queues, cell: (row) => `${row.read_queues} / ${row.write_queues}` },
    { key: "permission", name: t("topics.permissions"), value: (row) => row.permission, cell: (row) => permissionText(row.permission) },
    { key: "share", name: t("topics.share"), number: true, value: (row) => row.messages, cell: (row) => html`<${Bar} value=${row.share ?? 0} label=${part(row.messages, row.share)} />` },
    { key: "rate", name: t("topics.in"), number: true, value: (row) => row.in_rate, cell: (row) => rate(row.in_rate) },
  ];
  return html`
    <section class="card"><h2>${t("topics.brokers")}</h2>
      <${Table} caption=${t("topics.brokers")} columns=${columns} rows=${rows} rowKey=${(row) => row.broker} sortBy="broker" />
    </section>`;
}
