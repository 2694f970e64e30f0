// The command line that does the same as a button: every action shows it.
import { html, useState } from "../frame/html.js";
import { t } from "../frame/words.js";

export function Command({ line }) {
  const [copied, setCopied] = useState(false);
  if (!line) return null;
  const copy = async () => {
    try { await navigator.clipboard.writeText(line); } catch { return; }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`
    <figure class="command">
      <figcaption>${t("frame.sameCommand")}</figcaption>
      <code tabindex="0">${line}</code>
      <button class="plain" onClick=${copy} aria-live="polite">${copied ? t("frame.copied") : t("frame.copy")}</button>
    </figure>`;
}
