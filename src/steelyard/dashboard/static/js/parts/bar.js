// A share as a bar with its number beside it: the number says it, the bar lets the eye compare.
import { share as written } from "../frame/format.js";
import { html } from "../frame/html.js";

// `value` from 0 to 1; `label` instead of the share, `tone` "warn" or "bad".
export function Bar({ value, label, tone = "" }) {
  const known = value !== null && value !== undefined;
  return html`
    <span class=${`bar ${tone}`}>
      <span class="bar-track" aria-hidden="true"><span class="bar-fill" style=${{ width: `${known ? Math.min(100, Math.max(value > 0 ? 2 : 0, value * 100)) : 0}%` }}></span></span>
      <span class="bar-number">${label ?? written(value)}</span>
    </span>`;
}
