// What finding and following share: the field for a topic, links to a message, times as the server reads them.
import { path } from "../../frame/api.js";
import { html, useEffect, useState } from "../../frame/html.js";
import { t } from "../../frame/words.js";

export const TAG_HINT = "paid || refunded";

export const linkTo = (row) => path`/messages/${row.topic}/${row.broker}/${row.queue}/${row.offset}`;

export const apiOf = (row) => `/api${linkTo(row)}`;

export const TopicField = ({ value, onInput, required = true }) => html`
  <label class="field">${t("messages.topic")}
    <input name="topic" list="message-topics" data-search value=${value} onInput=${onInput} required=${required} autocomplete="off" spellcheck=${false} /></label>`;

// The fields of a form, as the address has them; they follow it when one goes back.
export function useFields(names, query) {
  const read = () => Object.fromEntries(names.map((name) => [name, query[name] || ""]));
  const [fields, setFields] = useState(read);
  useEffect(() => setFields(read()), [query]);
  return [fields, setFields];
}

// A time without a zone is meant as on the clock of who looks: "2026-11-16 14:05" becomes that with a zone.
// Everything else, such as "10 minutes ago", is for the server to read.
export function isoOf(text) {
  if (!/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text || "")) return text;
  const moment = new Date(text.replace(" ", "T"));
  return Number.isNaN(moment.getTime()) ? text : moment.toISOString();
}
