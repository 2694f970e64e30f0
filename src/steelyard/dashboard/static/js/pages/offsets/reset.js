// Resetting a group: target and queues, then the effect on each queue, then the reset.
import { path } from "../../app/api.js";
import { time, whole } from "../../app/format.js";
import { html, useEffect, useMemo } from "../../app/html.js";
import { goQuery } from "../../app/router.js";
import { t } from "../../app/i18n.js";
import { Confirm, useAction } from "../../components/action.js";
import { Command } from "../../components/command.js";
import { Problem } from "../../components/status.js";
import { Table } from "../../components/table.js";

const KINDS = ["first", "last", "ago", "time", "offset", "by"];
const UNITS = ["minutes", "hours", "days"];
const DEFAULTS = { ago: "2 hours", time: "", offset: "0", by: "-10" };

// The target as on the command line; null while the form is incomplete.
function targetOf(kind, value) {
  if (kind === "first" || kind === "last") return kind;
  if (kind === "ago") return /^\d+(\.\d+)? [a-z]+$/.test(value) ? `${value} ago` : null;
  if (kind === "time") return Number.isNaN(Date.parse(value)) ? null : new Date(value).toISOString();
  if (kind === "offset") return /^\d+$/.test(value) ? value : null;
  return /^[+-]?\d+$/.test(value) ? (/^[+-]/.test(value) ? value : `+${value}`) : null;
}

// The target as text: what the server returned, with a timestamp in local time.
function destination(to) {
  if (to === "first" || to === "last") return t(`offsets.goes.${to}`);
  if (/^\d+$/.test(to)) return t("offsets.goes.offset", { offset: to });
  if (/^[+-]\d+$/.test(to)) return t(to.startsWith("-") ? "offsets.goes.back" : "offsets.goes.on", { n: Number(to.slice(1)) });
  return time(to);
}

export function Reset({ group, seen, query, about }) {
  const kind = KINDS.includes(query.to) ? query.to : "first";
  const value = query.value ?? DEFAULTS[kind] ?? "";
  const topic = seen.topics.includes(query.topic) ? query.topic : "";
  const places = useMemo(() => seen.rows.filter((row) => row.topic === topic).map((row) => `${row.broker}:${row.queue_id}`), [seen, topic]);
  const chosen = topic ? (query.queues || "").split(",").filter((each) => places.includes(each)) : [];
  const to = targetOf(kind, value);
  const action = useAction(path`/api/groups/${group}/offsets/preview`, path`/api/groups/${group}/offsets/reset`);
  const selection = { topics: topic ? [topic] : [], queues: chosen };
  // The preview does not match the form any more.
  useEffect(() => { action.reset(); }, [kind, value, topic, chosen.join()]);
  const toggle = (place) => goQuery({ queues: (chosen.includes(place) ? chosen.filter((each) => each !== place) : [...chosen, place]).join(",") });
  return html`
    <section class="card wide-names" aria-label=${t("offsets.move")}>
      <h2>${t("offsets.move")}</h2>
      <form onSubmit=${(event) => { event.preventDefault(); if (to) action.showPreview({ to, ...selection }); }}>
        <div class="row reset">
          <label class="field">${t("offsets.to")}
            <select value=${kind} onChange=${(event) => goQuery({ to: event.target.value, value: null })}>
              ${KINDS.map((each) => html`<option key=${each} value=${each}>${t(`offsets.to.${each}`)}</option>`)}
            </select></label>
          <${Value} kind=${kind} value=${value} onValue=${(text) => goQuery({ value: text })} />
          <label class="field">${t("offsets.topic")}
            <select value=${topic} onChange=${(event) => goQuery({ topic: event.target.value, queues: null })}>
              <option value="">${t("offsets.allTopics")}</option>
              ${seen.topics.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
            </select></label>
          <button class="main" disabled=${!to || action.busy}>${t("app.preview")}</button>
        </div>
        ${places.length > 0 && html`
          <fieldset class="queues"><legend>${t("offsets.someQueues")}</legend>
            ${places.map((place) => html`<label key=${place}><input type="checkbox" checked=${chosen.includes(place)} onChange=${() => toggle(place)} /> ${place}</label>`)}
            <span class="quiet">${chosen.length ? t("offsets.chosen", { n: chosen.length }) : t("offsets.allQueues")}</span>
          </fieldset>`}
      </form>
      ${action.error && !action.preview && html`<${Problem} error=${action.error} />`}
      ${action.preview && html`<${Preview} action=${action} about=${about} group=${group} onApply=${() => action.act({ to: action.preview.to, ...selection })} />`}
      ${action.done && html`
        <p class="done" role="status">✓ ${t("offsets.done", { group, queues: t("offsets.inQueues", { n: action.done.changes.length }), skipped: whole(action.done.skipped), repeated: whole(action.done.repeated) })}</p>
        <${Command} line=${action.command} />`}
    </section>`;
}

function Value({ kind, value, onValue }) {
  const input = (event) => onValue(event.target.value);
  if (kind === "ago") {
    const [number, unit] = value.split(" ");
    return html`
      <label class="field">${t("offsets.howLong")}<input type="number" min="0" step="any" value=${number} onInput=${(event) => onValue(`${event.target.value} ${unit}`)} /></label>
      <label class="field">${t("offsets.unit")}
        <select value=${unit} onChange=${(event) => onValue(`${number} ${event.target.value}`)}>${UNITS.map((each) => html`<option key=${each} value=${each}>${t(`offsets.${each}`)}</option>`)}</select></label>`;
  }
  if (kind === "time") return html`<label class="field">${t("offsets.when")}<input type="datetime-local" step="1" value=${value} onInput=${input} /></label>`;
  if (kind === "offset") return html`<label class="field">${t("offsets.offset")}<input type="number" min="0" step="1" value=${value} onInput=${input} /></label>`;
  if (kind === "by") return html`<label class="field">${t("offsets.howMany")}<input type="number" step="1" value=${value} onInput=${input} /></label>`;
  return null;
}

function Preview({ action, about, group, onApply }) {
  const { changes, skipped, repeated, members, to } = action.preview;
  const changed = changes.filter((row) => row.to !== row.before);
  return html`
    <div class="preview" role="region" aria-label=${t("offsets.preview")}>
      <h3>${t("offsets.preview")}</h3>
      <p role="status">${t("offsets.sentence", { group, to: destination(to), queues: t("offsets.inQueues", { n: changed.length }), skipped: t("offsets.skips", { n: skipped }), repeated: t("offsets.repeats", { n: repeated }) })}
        ${" "}${members ? t("offsets.online", { n: members }) : t("offsets.nobodyOnline")}</p>
      <${Table} caption=${t("offsets.inEachQueue")} rows=${changes} rowKey=${(row) => `${row.topic} ${row.broker} ${row.queue_id}`} rowClass=${(row) => (row.to === row.before ? "quiet" : "")} columns=${[
        { key: "topic", name: t("offsets.topic"), value: (row) => row.topic },
        { key: "broker", name: t("offsets.broker"), value: (row) => row.broker },
        { key: "queue", name: t("offsets.queue"), number: true, value: (row) => row.queue_id },
        { key: "before", name: t("offsets.from"), number: true, value: (row) => row.before, cell: (row) => whole(row.before) },
        { key: "to", name: t("offsets.toOffset"), number: true, value: (row) => row.to, cell: (row) => html`<b>${whole(row.to)}</b>` },
        { key: "skipped", name: t("offsets.skipped"), number: true, value: (row) => row.skipped, cell: (row) => (row.skipped ? html`<span class="warn">${whole(row.skipped)}</span>` : "0") },
        { key: "repeated", name: t("offsets.repeated"), number: true, value: (row) => row.repeated, cell: (row) => (row.repeated ? html`<span class="warn">${whole(row.repeated)}</span>` : "0") },
      ]} />
      <${Confirm} action=${action} about=${about} onApply=${onApply} label=${t("offsets.apply")} danger />
    </div>`;
}
