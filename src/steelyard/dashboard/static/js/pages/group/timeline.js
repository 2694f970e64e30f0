// The rebalance history on a time axis: each rebalance is a mark, as high as it was large, with a slider over them.
import { time } from "../../app/format.js";
import { html, useEffect, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { rebalanceReason } from "../../components/members.js";

/** @type {[string, number][]} */
const SPANS = [["1m", 60e3], ["5m", 300e3], ["1h", 3600e3], ["6h", 6 * 3600e3], ["1d", 86400e3], ["7d", 7 * 86400e3]];
const ENOUGH = 8, STEP_MS = 900, NEAR = 0.012;

// The default span: the smallest with all rebalances, or with enough of them.
function usualSpan(events, now) {
  const enough = Math.min(events.length, ENOUGH);
  return (SPANS.find(([, ms]) => events.filter((event) => event.start >= now - ms * 0.98).length >= enough) ?? ["all"])[0];
}

// Why queues moved in a rebalance, up to a time of it.
export const whyOf = (event, names, at = null) => {
  if (!event) return "";
  const moves = event.moves.filter((move) => move.at_ms <= (at ?? Infinity));
  const reasons = moves.length ? [...new Set(moves.map((move) => move.why))] : event.changed.map((each) => `${each.member} ${t(`groups.what.${each.what}`)}`);
  return reasons.slice(0, 3).map((each) => rebalanceReason(each, names)).join(" · ");
};

export function Timeline({ events, stops, at, now, names, event, onGo }) {
  const [chosen, setChosen] = useState(null);
  const [playing, setPlaying] = useState(false);
  const span = chosen ?? usualSpan(events, now);
  const width = SPANS.find(([name]) => name === span)?.[1];
  const first = stops[0] ?? now - SPANS[0][1];
  const start = Math.min(width ? now - width : first - Math.max(1000, (now - first) * 0.03), at ?? Infinity);
  const place = (ms) => ((ms - start) / Math.max(1, now - start)) * 100;
  const last = stops.findLastIndex((stop) => stop <= (at ?? Infinity));
  const step = (by) => {
    const found = at === null ? stops.length - 1 : last + by + (by < 0 && stops[last] < at ? 1 : 0);
    if (found >= stops.length || (at === null && by > 0)) onGo(null);
    else if (stops.length) onGo(stops[Math.max(0, found)]);
  };
  const slid = (event) => {
    const value = Number(event.target.value), near = (now - start) * NEAR;
    if (now - value <= near / 3) { onGo(null); return; }
    const nearest = stops.reduce((best, stop) => (Math.abs(stop - value) < Math.abs(best - value) ? stop : best), Infinity);
    onGo(Math.abs(nearest - value) <= near ? nearest : value);
  };
  const pressed = (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (by) step(by);
    else if (event.key === "Home") onGo(stops[0] ?? null);
    else if (event.key === "End") onGo(null);
    else return;
    setPlaying(false);
    event.preventDefault();
  };
  useEffect(() => {
    // The same keys anywhere on the page, except where they mean something else.
    const anywhere = (event) => {
      if (event.target.closest?.("input, textarea, select, [tabindex='0'], dialog")) return;
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") pressed(event);
    };
    addEventListener("keydown", anywhere);
    return () => removeEventListener("keydown", anywhere);
  });
  useEffect(() => {
    if (!playing) return undefined;
    if (at === null) { setPlaying(false); return undefined; }
    const timer = setTimeout(() => step(1), STEP_MS);
    return () => clearTimeout(timer);
  }, [playing, at, stops.length]);
  const play = () => {
    if (!playing && at === null) onGo(stops[0]);
    setPlaying(!playing);
  };
  const text = at === null ? t("groups.live") : `${time(at, { ms: true })} ${whyOf(event, names, at)}`;
  const shown = events.filter((each) => each.end >= start);
  const most = Math.max(1, ...shown.map((each) => each.moves.length));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => start + (now - start) * part);
  return html`
    <div class="timeline">
      <div class="row controls">
        <button class="plain" onClick=${() => step(-1)} disabled=${!stops.length || at === stops[0]} aria-label=${t("groups.earlier")} title=${t("groups.earlier")}>◀</button>
        <button class="plain" onClick=${play} disabled=${stops.length < 2} aria-pressed=${playing}>${playing ? t("groups.stop") : t("groups.play")}</button>
        <button class="plain" onClick=${() => step(1)} disabled=${at === null} aria-label=${t("groups.later")} title=${t("groups.later")}>▶</button>
        <button class=${at === null ? "live-button on" : "live-button main"} onClick=${() => { setPlaying(false); onGo(null); }} aria-pressed=${at === null}>${t("groups.live")}</button>
        <label class="choice"><span class="hidden">${t("groups.span")}</span>
          <select value=${span} onChange=${(event) => setChosen(event.target.value)}>
            ${[...SPANS.map(([name]) => name), "all"].map((name) => html`<option key=${name} value=${name}>${t(`groups.span.${name}`)}</option>`)}
          </select></label>
        <span class="quiet">${t("groups.rebalances", { n: shown.length })}</span>
      </div>
      <div class="axis">
        <div class="marks" aria-hidden="true">
          ${shown.map((each) => html`<span key=${each.key} class=${`rebalance ${toneOf(each)} ${each === event && at !== null ? "here" : ""}`}
            style=${{ left: `${Math.max(0, place(each.start))}%`, width: `${Math.max(0, place(each.end) - Math.max(0, place(each.start)))}%`, height: `${18 + 82 * (Math.log1p(each.moves.length) / Math.log1p(most))}%` }}></span>`)}
        </div>
        <input type="range" aria-label=${t("groups.scrub")} aria-valuetext=${text} min=${Math.floor(start)} max=${Math.ceil(now)} step="1" value=${at ?? Math.ceil(now)}
          onInput=${(event) => { setPlaying(false); slid(event); }} onKeyDown=${pressed} disabled=${!stops.length} />
        <div class="ticks quiet" aria-hidden="true">${ticks.map((ms, each) => html`<span key=${each}>${each === 4 ? t("groups.now") : now - start < 120e3 ? `−${Math.round((now - ms) / 1000)} s` : time(ms, { zoned: false })}</span>`)}</div>
      </div>
    </div>`;
}

const toneOf = (event) => {
  const whats = event.changed.map((each) => each.what);
  if (whats.includes("gone")) return "bad";
  if (whats.includes("left") || whats.includes("leaving")) return "warn";
  return whats.includes("joined") ? "good" : "";
};
