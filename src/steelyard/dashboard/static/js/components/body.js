// What users sent, as text and never as markup: a body as JSON, text or hex, with invisible characters shown.
import { html, useMemo, useState } from "../app/html.js";
import { bytes } from "../app/format.js";
import { t } from "../app/i18n.js";

// Invisible characters, and those that change the direction of text: C0 and C1 controls, joiners, bidi marks …
const UNSEEN = /(?![\t\n\r])\p{Cc}|[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\r(?!\n)|[\u{e0000}-\u{e007f}]/gu;
const MOST_MARKS = 500;

// A text with each invisible character in a box that names it: it stays in the text without effect.
export function Plain({ text }) {
  const parts = useMemo(() => {
    const whole = String(text ?? ""), found = [];
    let from = 0;
    for (const { 0: letter, index } of whole.matchAll(UNSEEN)) {
      if (found.length > 2 * MOST_MARKS) break;
      found.push(whole.slice(from, index), html`<span class="unseen" data-code=${`U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`}>${letter}</span>`);
      from = index + letter.length;
    }
    found.push(whole.slice(from));
    return found;
  }, [text]);
  return html`<bdi>${parts}</bdi>`;
}

// The bytes of a body, as far as the server returned them.
export function bytesOf(body) {
  if (body.is_text) return new TextEncoder().encode(body.text);
  return Uint8Array.from(atob(body.base64), (letter) => letter.charCodeAt(0));
}

// JSON with line breaks and readable letters (\u4f60 is 你); numbers stay as written, which parsing would not keep.
// Escapes of one text: pairs of surrogates first. What JSON has to escape, and half a pair, stay as written.
const ESCAPES = /\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|u([0-9a-f]{4})|.)/gi;
const unescaped = (token) => token.replace(ESCAPES, (written, high, low, single) => {
  if (!high && (!single || /^d[89a-f]/i.test(single))) return written;
  const letter = String.fromCharCode(...(high ? [high, low] : [single]).map((each) => parseInt(each, 16)));
  return letter < " " || letter === '"' || letter === "\\" ? written : letter;
});

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const DEEPEST = 32;
export function prettyJson(text) {
  try { JSON.parse(text); } catch { return null; }
  const made = [];
  let depth = 0, before = "";
  const line = () => made.push("\n", "  ".repeat(Math.min(depth, DEEPEST)));
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    const isOpen = before === "{" || before === "[";
    if (closes ? !isOpen : isOpen || before === ",") line();
    made.push(token === ":" ? ": " : token[0] === '"' ? unescaped(token) : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return made.join("");
}

// Rows of sixteen bytes: offset, hexadecimal, ASCII.
export function hexOf(found) {
  const rows = [];
  for (let from = 0; from < found.length; from += 16) {
    const part = [...found.subarray(from, from + 16)];
    const digits = part.map((each) => each.toString(16).padStart(2, "0"));
    const seen = part.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    rows.push(`${from.toString(16).padStart(8, "0")}  ${digits.slice(0, 8).join(" ").padEnd(23)}  ${digits.slice(8).join(" ").padEnd(23)}  ${seen}`);
  }
  return rows.join("\n");
}

const VIEWS = ["json", "text", "hex"];

// A body: `body` is { text, base64, size, is_text, is_truncated }, where `size` is null if it is not known; `download` the URL of all of it, if there is one.
// A page that keeps the view in its URL passes `view` and `onView`.
export function Body({ body, download, view, onView }) {
  const [own, setOwn] = useState(null);
  const raw = useMemo(() => bytesOf(body), [body]);
  const pretty = useMemo(() => (body.is_text && !body.is_truncated ? prettyJson(body.text) : null), [body]);
  const first = !body.is_text ? "hex" : pretty !== null && /^\s*[[{]/.test(body.text) ? "json" : "text";
  const wanted = onView ? view : own;
  const shown = VIEWS.includes(wanted) && (wanted !== "json" || pretty !== null) ? wanted : first;
  const all = body.size === null ? `> ${bytes(raw.length)}` : bytes(body.size);
  const inside = useMemo(() => {
    if (shown === "json") return pretty;
    if (shown === "hex") return hexOf(raw);
    return body.is_text ? body.text : new TextDecoder("utf-8", { ignoreBOM: true }).decode(raw);
  }, [body, shown]);
  return html`
    <div class="body-view">
      <div class="row">
        <div class="views" role="group" aria-label=${t("body.views")}>
          ${VIEWS.map((each) => html`<button key=${each} aria-pressed=${shown === each ? "true" : "false"} disabled=${each === "json" && pretty === null}
            onClick=${() => (onView || setOwn)(each)}>${t(`body.${each}`)}</button>`)}
        </div>
        <span class="quiet">${all}</span>
        ${download && html`<a href=${download} download>${t("body.download")}</a>`}
      </div>
      ${body.is_truncated && html`<p class="quiet" role="note">${t("body.truncated", { shown: bytes(raw.length), all })}</p>`}
      ${shown === "text" && !body.is_text && html`<p class="quiet" role="note">${t("body.notText")}</p>`}
      ${raw.length ? html`<pre class=${`body ${shown}`} dir="ltr" tabindex="0" aria-label=${t("body.label")}>${shown === "hex" ? inside : html`<${Plain} text=${inside} />`}</pre>` : html`<p class="empty">${t("body.empty")}</p>`}
    </div>`;
}
