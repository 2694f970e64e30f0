// The health of a broker, for two pages: disk usage, flushing, and the last recovery. What a broker does not report
// is null, and shown as not reported.
import { bytes, duration, share, whole } from "../app/format.js";
import { html } from "../app/html.js";
import { t } from "../app/i18n.js";

const NotReported = () => html`<span class="quiet">${t("brokers.notReported")}</span>`;

// "V5_5_0" → "5.5.0"
const release = (version) => (version ? version.replace(/^V/, "").replace("_SNAPSHOT", "-SNAPSHOT").replaceAll("_", ".") : null);

// "5.5.0 (protocol V5_5_0)"; of ours, whose release differs: "Steelyard 0.1.0, speaks V5_5_0".
export function versionText(product, version) {
  if (product) return version ? t("brokers.speaks", { product, version }) : product;
  return version ? t("brokers.protocol", { release: release(version), version }) : null;
}

// The used share of the disk; null if unknown or unlimited.
export const fullness = ({ disk_bytes: all, free_bytes: free }) => (all && free !== null ? 1 - free / all : null);

export function DiskMeter({ health, used }) {
  const { disk_bytes: all, free_bytes: free, log_bytes: log } = health;
  if (all === null && free !== null) return html`<span>${t("brokers.inMemory", { log: bytes(log) })}</span>`;
  const full = fullness(health) ?? used;
  if (full === null || full === undefined) return html`<${NotReported} />`;
  const part = all && log !== null ? Math.min(full, log / all) : 0;
  const words = all ? t("brokers.diskWords", { log: bytes(log), free: bytes(free), all: bytes(all) }) : t("brokers.diskShare", { share: share(full) });
  return html`
    <div class="meter" role="img" aria-label=${`${share(full)} · ${words}`}>
      <i class="log" style=${{ width: `${part * 100}%` }}></i><i class="others" style=${{ width: `${(full - part) * 100}%` }}></i></div>
    <div class="meter-words">${share(full)} · ${words}</div>`;
}

// When a broker flushes, as text: by its report, or by its configuration; null if unknown.
export function flushWords(health, settings) {
  const how = health.flush ?? settings?.flush;
  if (!how) return null;
  return how === "sync" ? t("brokers.sync") : t("brokers.async", { time: duration(health.flush_interval_ms ?? settings?.flush_interval_ms) });
}

export function Flushing({ health }) {
  const { unflushed_bytes: waiting, last_flush_ms: last } = health;
  const how = flushWords(health);
  if (!how && waiting === null) return html`<${NotReported} />`;
  return html`
    ${how && html`<div>${how}</div>`}
    <div class="quiet">${waiting !== null && t("brokers.unflushed", { size: bytes(waiting) })}${last !== null && html` · ${t("brokers.lastFlush", { time: duration(last) })}`}</div>`;
}

const TONES = { nothing: "", closed: "good", unclosed: "warn" };

export function LastStart({ health }) {
  const start = health.recovery;
  if (!start) return html`<${NotReported} />`;
  return html`
    <span class=${`badge ${TONES[start.found] ?? ""}`}>${start.found in TONES ? t(`brokers.start.${start.found}`) : start.found}</span>
    <span class="quiet"> ${start.found === "unclosed" ? t("brokers.readAgain", { n: start.records, count: whole(start.records), time: duration(start.took_ms) }) : duration(start.took_ms)}</span>`;
}
