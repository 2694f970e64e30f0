// The live tail: new messages as they arrive, with a filter, pause and resume. However fast they arrive, the page
// renders at most ten times a second, and only visible rows.
import { follow, query as written } from "../../app/api.js";
import { rate, time, whole } from "../../app/format.js";
import { html, useEffect, useReducer, useRef, useState } from "../../app/html.js";
import { goQuery } from "../../app/router.js";
import { t } from "../../app/i18n.js";
import { Sparkline } from "../../components/chart.js";
import { Fact, Facts, Liveness } from "../../components/status.js";
import { TAG_HINT, TopicField, useFields } from "./fields.js";
import { MOST, TailBuffer } from "./tail_buffer.js";
import { TailRows } from "./tail_rows.js";

const FILTERS = ["queue", "tag", "key", "text"];
const FIELDS = ["topic", ...FILTERS];

export function Tail({ query, queues }) {
  const url = query.topic && `/api/tail${written({ topic: query.topic, ...Object.fromEntries(FILTERS.map((name) => [name, query[name]])) })}`;
  return html`
    <${Form} query=${query} queues=${queues} />
    ${url ? html`<${Stream} key=${url} url=${url} topic=${query.topic} />` : html`<p class="empty">${t("messages.beginTail")}</p>`}`;
}

function Form({ query, queues }) {
  const [fields, setFields] = useFields(FIELDS, query);
  const set = (name) => (event) => setFields((before) => ({ ...before, [name]: event.target.value }));
  const chosen = fields.queue ? fields.queue.split(",") : [];
  const turn = (name) => () => {
    const next = chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name];
    setFields((before) => ({ ...before, queue: next.join(",") }));
  };
  const submit = (event) => {
    event.preventDefault();
    goQuery({ ...Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.trim()])), tail: 1 }, { replace: false });
  };
  const field = (name, hint) => html`
    <label class="field">${t(`messages.${name}`)}<input name=${name} value=${fields[name]} onInput=${set(name)} placeholder=${hint} autocomplete="off" spellcheck=${false} /></label>`;
  return html`
    <form class="card message-form" onSubmit=${submit} role="search" aria-label=${t("messages.tail")}>
      <div class="row fields">
        <${TopicField} value=${fields.topic} onInput=${set("topic")} />
        ${field("tag", TAG_HINT)}${field("key")}${field("text", t("messages.textHint"))}
        <button class="main">${t("messages.follow")}</button>
      </div>
      ${queues?.length > 1 && html`
        <details open=${chosen.length > 0}><summary>${chosen.length ? t("messages.someQueues", { n: chosen.length, all: queues.length }) : t("messages.allOf", { n: queues.length })}</summary>
          <div class="row queue-choice">${queues.slice(0, 256).map((each) => html`<label key=${each} class="check"><input type="checkbox" checked=${chosen.includes(each)} onChange=${turn(each)} /> ${each}</label>`)}</div>
        </details>`}
    </form>`;
}

function Stream({ url, topic }) {
  const buffer = useRef(null);
  buffer.current ??= new TailBuffer();
  const [turn, redraw] = useReducer((before) => before + 1, 0);
  const [live, setLive] = useState({ state: "opening", failure: null });
  const [notice, setNotice] = useState("");
  useEffect(() => {
    let frame = 0;
    const draw = () => { frame ||= requestAnimationFrame(() => { frame = 0; redraw(); }); };
    const stop = follow(url, {
      onValue: (batch) => { buffer.current.add(batch); setLive((before) => (before.failure ? { ...before, failure: null } : before)); draw(); },
      onFailure: (failure) => setLive((before) => ({ ...before, failure })),
      onState: (state) => {
        if (state === "lost") buffer.current.disconnected();
        setLive((before) => (before.state === state ? before : { ...before, state }));
      },
    });
    return () => { stop(); cancelAnimationFrame(frame); };
  }, [url]);
  const pause = () => { buffer.current.pause(); setNotice(""); redraw(); };
  const goOn = (fromNow) => {
    const { n, lost } = buffer.current.resume(fromNow);
    setNotice(fromNow ? t("messages.wentOnNow", { n }) : lost ? t("messages.wentOnPart", { n, lost: whole(lost) }) : t("messages.wentOn", { n }));
    redraw();
  };
  const turnPause = () => { if (buffer.current.queues !== null) (buffer.current.pausedAt === null ? pause : goOn)(false); };
  useSpace(turnPause);
  const held = buffer.current, total = held.total(), isPaused = held.pausedAt !== null;
  return html`
    <section class="tail" aria-label=${t("messages.tailOf", { topic })} data-received=${held.received} data-kept=${held.rows.length} data-held=${held.waiting} data-skipped=${total.skipped} data-state=${held.queues === null ? "opening" : isPaused ? "paused" : live.state}>
      <${Liveness} live=${live} />
      ${held.cuts.map((at) => html`<p key=${at} class="problem" role="status">${t("messages.cut", { time: time(at) })}</p>`)}
      <${Facts}>
        <${Fact} name=${t("messages.received")} value=${whole(held.received)} />
        <${Fact} name=${t("messages.rate")} value=${html`${rate(held.rate())} <${Sparkline} values=${held.minute()} says=${t("messages.rateSays", { rate: rate(held.rate()) })} />`} />
        <${Fact} name=${t("messages.seen")} value=${whole(total.scanned)} hint=${t("messages.seenHint")} />
        <${Fact} name=${t("messages.skipped")} value=${whole(total.skipped)} tone=${total.skipped ? "warn" : ""} hint=${t("messages.skippedHint")} />
      <//>
      <div class="card">
        <div class="row tail-head">
          <button class=${isPaused ? "" : "main"} aria-pressed=${isPaused ? "true" : "false"} onClick=${turnPause} disabled=${held.queues === null}>${isPaused ? t("messages.resume") : t("messages.pause")} <kbd>${t("messages.space")}</kbd></button>
          ${isPaused && html`<button onClick=${() => goOn(true)}>${t("messages.resumeNow")}</button>`}
          <button class="plain" onClick=${() => { buffer.current.clear(); redraw(); }}>${t("messages.clear")}</button>
          <span class=${`pulse ${live.state === "live" && !isPaused ? "live" : ""}`}>${held.queues === null ? t("app.loading") : isPaused ? t("messages.pausedAt", { time: time(held.pausedAt) }) : t("messages.reads", { n: held.queues })}</span>
        </div>
        <p class="tail-notice" role="status">${isPaused ? html`${t("messages.meanwhile", { n: held.waiting })}${held.heldDropped ? ` ${t("messages.meanwhileMost", { most: whole(MOST) })}` : ""}` : notice}</p>
        ${total.skipped > 0 && html`<p class="warn">${t("messages.skippedSays", { n: total.skipped })}</p>`}
        <${TailRows} rows=${held.rows} dropped=${held.dropped} turn=${turn} />
        <p class="quiet">${t("messages.keeps", { shown: whole(held.rows.length), most: whole(MOST) })} ${t("messages.leavesNothing")}</p>
      </div>
    </section>`;
}

// The space bar pauses and resumes, except in a field or on a button.
function useSpace(act) {
  const acting = useRef(act);
  acting.current = act;
  useEffect(() => {
    const pressed = (event) => {
      if (event.key !== " " || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (event.target.closest?.("input, textarea, select, button, summary, dialog")) return;
      event.preventDefault();
      acting.current();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
