// Shared by search and tail: the topic field, links to messages, and timestamps for the server.
import { path } from "../../app/api.js";
import { html, useEffect, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";

export const TAG_HINT = "paid || refunded";

export const linkTo = (row) => path`/messages/${row.topic}/${row.broker}/${row.queue}/${row.offset}`;

export const apiOf = (row) => `/api${linkTo(row)}`;

export const TopicField = ({ value, onInput, required = true }) => html`
  <label class="field">${t("messages.topic")}
    <input name="topic" list="message-topics" data-search value=${value} onInput=${onInput} required=${required} autocomplete="off" spellcheck=${false} /></label>`;

// The fields of a form, as in the URL; they follow it when the user goes back.
export function useFields(names, query) {
  const read = () => Object.fromEntries(names.map((name) => [name, query[name] || ""]));
  const [fields, setFields] = useState(read);
  useEffect(() => setFields(read()), [query]);
  return [fields, setFields];
}

// A time without a zone is local time: "2026-11-16 14:05" becomes that with a zone.
// Everything else, such as "10 minutes ago", is parsed by the server.
export function isoOf(text) {
  if (!/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text || "")) return text;
  const moment = new Date(text.replace(" ", "T"));
  return Number.isNaN(moment.getTime()) ? text : moment.toISOString();
}
