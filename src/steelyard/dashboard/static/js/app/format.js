// Numbers, times and sizes as text, in the language of the page. What is unknown is a dash.
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

export function bytes(value) {
  if (!isKnown(value)) return NONE;
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return `${unit === "B" ? size : size.toPrecision(3)} ${unit}`;
    size /= 1024;
  }
  return `${size.toPrecision(3)} TiB`;
}

export const share = (value) => (isKnown(value) ? `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %` : NONE);

// Milliseconds: "0.4 ms", "350 ms", "2.4 s", "3 min 20 s", "5 h 2 min", "3 d 4 h".
export function duration(ms) {
  if (!isKnown(ms)) return NONE;
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// A time of day with milliseconds, with its date if it is not today's. Takes milliseconds or an ISO text.
export function time(when, { ms = false } = {}) {
  if (!isKnown(when)) return NONE;
  const moment = new Date(when);
  if (Number.isNaN(moment.getTime())) return NONE;
  const two = (number, width = 2) => String(number).padStart(width, "0");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} `;
  const today = new Date().toDateString() === moment.toDateString();
  return `${today ? "" : day}${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}${ms ? `.${two(moment.getMilliseconds(), 3)}` : ""}`;
}

export const ago = (when) => (isKnown(when) ? t("app.ago", { time: duration(Math.max(0, Date.now() - new Date(when).getTime())) }) : NONE);

// The shortest distinct ends of ids: "10.0.0.1@4711#ab" and "10.0.0.1@4712#cd" become "4711#ab" and "4712#cd".
export function shortNames(ids) {
  if (ids.length < 2) return Object.fromEntries(ids.map((id) => [id, id.length > 28 ? `…${id.slice(-26)}` : id]));
  let same = 0;
  while (ids.every((id) => id[same] !== undefined && id[same] === ids[0][same])) same += 1;
  const cut = Math.max(0, ...["@", "#", "-", ":"].map((mark) => ids[0].lastIndexOf(mark, same - 1) + 1));
  return Object.fromEntries(ids.map((id) => [id, id.length > 28 && cut > 3 ? `…${id.slice(cut)}` : id]));
}
