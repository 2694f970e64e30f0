// Numbers, times, sizes and member names as text, the same as model/formatting.py writes: tests/model/formatting.json has
// examples for both. What is unknown is a dash.
import { language, t } from "./i18n.js";

export const NONE = "–";
const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);

// Made once: a grid of a thousand queues formats thousands of numbers.
const WRITERS = { en: new Intl.NumberFormat("en-GB"), zh: new Intl.NumberFormat("zh-CN") };
export const whole = (value) => (isKnown(value) ? WRITERS[language()].format(Math.round(value)) : NONE);

/** @type {[number, string][]} */
const UNITS = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];

// 1234567 → "1.23 M"
export function short(value) {
  if (!isKnown(value)) return NONE;
  const size = Math.abs(value);
  for (const [from, unit] of UNITS) {
    if (size >= from) return `${(value / (unit === "k" ? 1e3 : from)).toPrecision(3)} ${unit}`;
  }
  return whole(value);
}

// Messages per second.
export const rate = (value) => (isKnown(value) ? `${value >= 100 || value === 0 ? short(value) : value.toFixed(1)}/s` : NONE);

// Rounded half up, without zeros after the point.
const round = (value, digits) => WRITERS[language()].format(Math.floor(value * 10 ** digits + 0.5) / 10 ** digits);

export function bytes(value) {
  if (!isKnown(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let [size, power] = [value, 0];
  // 1023.96 KiB would be rounded to 1024 KiB.
  while (size >= (power ? 1023.95 : 1024) && power < units.length - 1) [size, power] = [size / 1024, power + 1];
  return power ? `${round(size, 1)} ${units[power]}` : `${whole(size)} B`;
}

export function share(value) {
  if (!isKnown(value)) return NONE;
  const percent = 100 * value;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  return `${round(percent, percent >= 10 ? 0 : percent >= 1 ? 1 : 2)} %`;
}

// Milliseconds: "0.4 ms", "350 ms", "2.4 s", "3 min 20 s", "5 h 2 min", "3 d 4 h". Cut off, not rounded.
export function duration(ms) {
  if (!isKnown(ms)) return NONE;
  const tenths = Math.floor(Math.max(0, ms) * 10 + 0.5);
  if (tenths > 0 && tenths < 10_000) return `${tenths < 100 ? tenths / 10 : Math.floor(tenths / 10)} ms`;
  if (tenths < 100_000) return `${Math.floor(tenths / 1000) / 10} s`;
  let rest = Math.floor(tenths / 10_000);
  const parts = [];
  for (const [unit, size] of Object.entries({ d: 86400, h: 3600, min: 60, s: 1 })) {
    const number = Math.floor(rest / size);
    rest %= size;
    if (number) parts.push(`${number} ${unit}`);
    if (parts.length === 2 || (parts.length && !number)) break;
  }
  return parts.join(" ");
}

// A time in ISO 8601 with its zone, which is the browser's; of today's, only what follows the date. Takes milliseconds or
// an ISO text. The ticks of an axis have no room for the zone.
export function time(when, { ms = false, dated = false, zoned = true } = {}) {
  if (!isKnown(when)) return NONE;
  const moment = new Date(when);
  if (Number.isNaN(moment.getTime())) return NONE;
  const offset = -moment.getTimezoneOffset();
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const zone = offset ? `${offset < 0 ? "-" : "+"}${two(Math.abs(offset) / 60)}:${two(Math.abs(offset) % 60)}` : "Z";
  const text = new Date(moment.getTime() + offset * 60_000).toISOString();
  const today = !dated && new Date().toDateString() === moment.toDateString();
  return `${text.slice(today ? 11 : 0, ms ? 23 : 19)}${zoned ? zone : ""}`;
}

export const ago = (when) => (isKnown(when) ? t("app.ago", { time: duration(Math.max(0, Date.now() - new Date(when).getTime())) }) : NONE);

// For each id the first that is unique of its name, its address and name, and all of it.
export function shortNames(ids) {
  const forms = new Map(ids.map((id) => [id, [...new Set([...nameForms(id), id])]]));
  const taken = new Map();
  for (const form of [...forms.values()].flat()) taken.set(form, (taken.get(form) || 0) + 1);
  return Object.fromEntries([...forms].map(([id, several]) => [id, several.find((form) => taken.get(form) === 1) || id]));
}

function nameForms(id) {
  const head = id.split("#")[0];
  const own = head.includes("@") ? head.slice(head.indexOf("@") + 1) : "";
  // A number alone is a process id, which says little without the host.
  return own && !/^\d+$/.test(own) ? [own, head] : [head];
}
