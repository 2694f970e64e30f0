// A share as a bar with its number beside it: the number says it, the bar lets the eye compare.
import { share as written } from "../app/format.js";
import { html } from "../app/html.js";

// `value` from 0 to 1; `label` instead of the share, `tone` "warn" or "bad".
export function Bar({ value, label, tone = "" }) {
  const known = value !== null && value !== undefined;
  return html`
    <span class=${`bar ${tone}`}>
      <span class="bar-track" aria-hidden="true"><span class="bar-fill" style=${{ width: `${known ? Math.min(100, Math.max(value > 0 ? 2 : 0, value * 100)) : 0}%` }}></span></span>
      <span class="bar-number">${label ?? written(value)}</span>
    </span>`;
}

// A value as heat: 0 is cool, `most` is hot. The number is always beside the colour.
export function heatClass(value, most) {
  if (value === null || value === undefined) return "heat-none";
  if (!value) return "heat-0";
  const step = most > 1 ? Math.ceil((Math.log1p(value) / Math.log1p(most)) * 5) : 1;
  return `heat-${Math.min(5, Math.max(1, step))}`;
}

// Lag as heat, by its size alone: below a hundred messages it is cool, from a million on it has the hottest colour. The
// largest lag of a healthy group is cool, too, and the same lag has the same colour on every page.
export function lagClass(lag) {
  if (lag === null || lag === undefined) return "heat-none";
  return `heat-${Math.min(5, Math.max(0, Math.floor(Math.log10(Math.max(1, lag))) - 1))}`;
}
