// Message search: a form whose fields are in the URL, and a table of results.
import { query as written, useGet } from "../../app/api.js";
import { whole, time } from "../../app/format.js";
import { html, useEffect, useState } from "../../app/html.js";
import { goQuery } from "../../app/router.js";
import { t } from "../../app/i18n.js";
import { Plain } from "../../components/body.js";
import { Command } from "../../components/command.js";
import { Problem } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { isoOf, linkTo, TAG_HINT, TopicField, useFields } from "./fields.js";

const WAYS = ["newest", "offset", "time", "key", "id"];
const FIELDS = ["topic", "by", "queue", "offset", "from", "until", "key", "id", "tag", "text", "count"];
// The fields of each way, besides the topic.
const ASKED = { newest: ["queue", "tag", "text"], offset: ["queue", "offset", "tag", "text"], time: ["from", "until", "queue", "tag", "text"], key: ["key", "from", "until"], id: ["id"] };
const DEPTH = 20_000, MOST_DEPTH = 1_000_000;

export function Search({ query, queues }) {
  const by = WAYS.includes(query.by) ? query.by : "newest";
  const isAsked = by === "id" ? query.id : query.topic && (by !== "key" || query.key);
  const asked = Object.fromEntries([...FIELDS, "depth"].map((name) => [name, query[name]]));
  const found = useGet(isAsked && `/api/messages${written(asked)}`);
  return html`
    <${Form} query=${query} by=${by} queues=${queues} busy=${found.busy && isAsked} />
    ${!isAsked && html`<p class="empty">${t("messages.begin")}</p>`}
    ${isAsked && found.error && html`<${Problem} error=${found.error} again=${found.again} />`}
    ${isAsked && found.value && html`<${Results} found=${found.value} by=${by} depth=${Number(query.depth) || DEPTH} counts=${by !== "newest" || query.tag || query.text} />`}`;
}

function Form({ query, by: first, queues, busy }) {
  const [by, setBy] = useState(first);
  const [fields, setFields] = useFields(FIELDS, query);
  useEffect(() => setBy(first), [query]);
  const set = (name) => (event) => setFields((before) => ({ ...before, [name]: event.target.value }));
  const has = (name) => ASKED[by].includes(name);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(FIELDS.map((name) => [name, name === "topic" || name === "count" || has(name) ? fields[name].trim?.() : ""]));
    goQuery({ ...given, by: by === "newest" ? "" : by, from: isoOf(given.from), until: isoOf(given.until), depth: "", tail: "" }, { replace: false });
  };
  const field = (name, more = {}) => html`
    <label class="field">${t(`messages.${name}`)}
      <input name=${name} value=${fields[name]} onInput=${set(name)} autocomplete="off" spellcheck=${false} ...${more} /></label>`;
  return html`
    <form class="card message-form" onSubmit=${submit} role="search" aria-label=${t("messages.find")}>
      <div class="views" role="group" aria-label=${t("messages.by")}>
        ${WAYS.map((way) => html`<button type="button" key=${way} aria-pressed=${by === way ? "true" : "false"} onClick=${() => setBy(way)}>${t(`messages.by.${way}`)}</button>`)}
      </div>
      <div class="row fields">
        <${TopicField} value=${fields.topic} onInput=${set("topic")} required=${by !== "id"} />
        ${has("id") && field("id", { required: true, class: "wide mono", placeholder: t("messages.idHint") })}
        ${has("key") && field("key", { required: true })}
        ${has("queue") && html`
          <label class="field">${t("messages.queue")}
            <select name="queue" value=${fields.queue} onChange=${set("queue")}>
              <option value="">${t("messages.allQueues")}</option>
              ${(queues || (fields.queue ? [fields.queue] : [])).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
            </select></label>`}
        ${has("offset") && field("offset", { type: "number", min: 0, required: true })}
        ${has("from") && field("from", { placeholder: t("messages.timeHint") })}
        ${has("until") && field("until", { placeholder: t("messages.now") })}
        ${has("tag") && field("tag", { placeholder: TAG_HINT })}
        ${has("text") && field("text", { placeholder: t("messages.textHint") })}
        ${by !== "id" && by !== "key" && html`
          <label class="field">${t("messages.count")}
            <select name="count" value=${fields.count || "100"} onChange=${set("count")}>
              ${["20", "100", "500", "1000"].map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
            </select></label>`}
        <button class="main" disabled=${busy}>${t("messages.go")}</button>
      </div>
    </form>`;
}

// `counts` says whether the number of scanned messages matters.
function Results({ found, by, depth, counts }) {
  const rows = by === "newest" ? [...found.rows].reverse() : found.rows;
  const columns = [
    { key: "topic", name: t("messages.topic"), value: (row) => row.topic, cell: (row) => html`<span class="topic-cell"><${Plain} text=${row.topic} /></span>` },
    { key: "queue", name: t("messages.queue"), value: (row) => `${row.broker}:${row.queue}`, cell: (row) => html`<span class="nowrap">${row.broker}:${row.queue}</span>` },
    { key: "offset", name: t("messages.offset"), number: true, value: (row) => row.offset, cell: (row) => html`<a href=${linkTo(row)}>${whole(row.offset)}</a>` },
    { key: "stored", name: t("messages.stored"), value: (row) => row.stored_ms, cell: (row) => html`<time class="nowrap" datetime=${new Date(row.stored_ms).toISOString()}>${time(row.stored_ms, { ms: true })}</time>` },
    { key: "tag", name: t("messages.tag"), value: (row) => row.tag, cell: (row) => row.tag !== null && html`<span class="badge"><${Plain} text=${row.tag} /></span>` },
    { key: "keys", name: t("messages.keys"), value: (row) => row.keys.join(" "), cell: (row) => html`<${Plain} text=${row.keys.join(" ")} />` },
    { key: "start", name: t("messages.body"), value: (row) => row.preview, sortable: false, cell: (row) => html`<${Start} row=${row} />` },
  ];
  const more = found.remaining > 0 && found.scanned !== null;
  return html`
    <section class="card">
      <p role="status">${t("messages.foundCount", { n: rows.length })}
        ${counts && found.scanned !== null && html` <span class="quiet">${more ? t("messages.scanned", { scanned: whole(found.scanned), left: whole(found.remaining) }) : t("messages.scannedAll", { n: whole(found.scanned) })}${found.limit_reached ? ` ${t(`messages.ended.${found.limit_reached}`)}` : ""}</span>`}
        ${counts && more && found.scanned >= depth * 0.9 && depth < MOST_DEPTH && html` <button onClick=${() => goQuery({ depth: Math.min(MOST_DEPTH, depth * 10) }, { replace: false })}>${t("messages.further")}</button>`}</p>
      <${Table} caption=${t("messages.found")} columns=${columns} rows=${rows} rowKey=${(row) => `${row.broker}:${row.queue}:${row.offset}`} search=${rows.length > 10} empty=${t("messages.none")} />
      ${found.notes.map((each) => html`<p key=${each} class="quiet">${each}</p>`)}
      <${Command} line=${found.command} />
    </section>`;
}

// The preview of a body in a list.
export const Start = ({ row }) => html`<span class="start mono"><${Plain} text=${row.preview} />${row.is_truncated && html`<span class="quiet">…</span>`}${!row.size && html`<span class="quiet">${t("body.empty")}</span>`}</span>`;
