// The list of topics, by kind: user, dead-letter, retry and system topics.
import { path, useLive } from "../app/api.js";
import { ago, duration, rate, short, time, whole } from "../app/format.js";
import { html, useMemo, useRef, useState } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Command } from "../components/command.js";
import { Liveness, Loading } from "../components/status.js";
import { Table } from "../components/table.js";
import { CreateTopic } from "./topic_changes.js";

const KINDS = ["users", "dead letters", "retry", "system"];
const NAMED = 3;

// All rows with the first event, then those that changed.
/** @returns {[{ current: any }, (value: any) => void]} */
function useRows() {
  const rows = useRef(new Map());
  const take = (value) => {
    const known = value.is_full ? new Map() : new Map(rows.current);
    value.rows.forEach((row) => known.set(row.name, row));
    value.removed.forEach((name) => known.delete(name));
    rows.current = known;
  };
  return [rows, take];
}

export function Topics({ query, about }) {
  const [creates, setCreates] = useState(false);
  title(t("topics.title"));
  const [rows, take] = useRows();
  const live = useLive("/api/topics/live", take);
  const kind = KINDS.includes(query.kind) ? query.kind : "users";
  return html`
    <div class="page-head">
      <h1>${t("topics.title")}</h1>
      <div class="row">
        ${live.value && html`<span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${age(live.value)}</span>`}
        <button class="main" onClick=${() => setCreates(true)}>${t("topics.create")}</button>
      </div>
    </div>
    ${creates && html`<${CreateTopic} about=${about} onClose=${() => setCreates(false)} />`}
    <${Liveness} live=${live} />
    ${live.value ? html`<${List} rows=${rows.current} kind=${kind} command=${live.value.command} />` : !live.failure && html`<${Loading} />`}`;
}

function age(value) {
  if (value.topics_seen_ms === null) return t("topics.looking");
  return t("topics.asOf", { time: time(value.at_ms), old: duration(Math.max(1000, value.at_ms - value.topics_seen_ms)) });
}

function List({ rows, kind, command }) {
  const kinds = useMemo(() => {
    const found = Object.fromEntries(KINDS.map((each) => [each, []]));
    rows.forEach((row) => found[row.kind].push(row));
    return found;
  }, [rows]);
  const columns = [
    { key: "name", name: t("topics.topic"), value: (row) => row.name, cell: (row) => html`<a href=${path`/topics/${row.name}`}>${row.name}</a>` },
    { key: "rate", name: t("topics.in"), number: true, value: (row) => row.in_rate, cell: (row) => rate(row.in_rate) },
    { key: "messages", name: t("topics.messages"), number: true, value: (row) => row.messages, cell: (row) => html`<span title=${whole(row.messages)}>${short(row.messages)}</span>` },
    { key: "stored", name: t("topics.stored"), number: true, value: (row) => row.stored_ms, cell: (row) => html`<span title=${time(row.stored_ms)}>${ago(row.stored_ms)}</span>` },
    { key: "queues", name: t("topics.queues"), number: true, value: (row) => row.queues, cell: (row) => whole(row.queues) },
    { key: "brokers", name: t("topics.brokers"), value: (row) => row.brokers.join(" "), cell: (row) => some(row.brokers, "/brokers/") },
    { key: "groups", name: t("topics.groups"), value: (row) => row.groups.join(" "), cell: (row) => some(row.groups, "/groups/") },
    { key: "permission", name: t("topics.permissions"), value: (row) => row.permission, cell: (row) => (row.permission === "read and write" ? t("topics.readWrite") : html`<span class="badge warn">${permissionText(row.permission)}</span>`) },
  ];
  return html`
    <nav class="tabs" aria-label=${t("topics.kinds")}>
      ${KINDS.map((each) => html`
        <a key=${each} href=${each === "users" ? "/topics" : `/topics?kind=${encodeURIComponent(each)}`} aria-current=${each === kind ? "page" : undefined}>${t(`topics.kind.${each}`)} <span class="badge">${whole(kinds[each].length)}</span></a>`)}
    </nav>
    <section class="card">
      <${Table} key=${kind} caption=${t("topics.title")} columns=${columns} rows=${kinds[kind]} rowKey=${(row) => row.name} search sortBy="name" empty=${t("topics.none")} />
      ${(kind === "system" || kind === "retry") && html`<p class="quiet">${t("topics.notCounted")}</p>`}
    </section>
    <${Command} line=${command} />`;
}

export const permissionText = (permission) => ({ "read and write": t("topics.readWrite"), read: t("topics.readOnly"), write: t("topics.writeOnly"), nothing: t("topics.nothing") }[permission] ?? permission);

function some(names, base) {
  const links = names.slice(0, NAMED).map((name, place) => html`${place ? ", " : ""}<a href=${base + encodeURIComponent(name)}>${name}</a>`);
  return html`${links}${names.length > NAMED ? html` <span class="quiet" title=${names.join(", ")}>${t("topics.more", { n: names.length - NAMED })}</span>` : ""}`;
}
