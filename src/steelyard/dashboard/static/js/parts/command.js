// The command line that does the same as a button: every action shows it.
import { html, useRef, useState } from "../frame/html.js";
import { t } from "../frame/words.js";

export function Command({ line, label }) {
  const [copied, setCopied] = useState(false);
  const code = useRef(null);
  if (!line) return null;
  const copy = async () => {
    try { await navigator.clipboard.writeText(line); } catch {
      // Browsers let nobody write there on lines that are not encrypted: then it is marked, to be copied by hand.
      getSelection().selectAllChildren(code.current);
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`
    <figure class="command">
      <figcaption>${label || t("frame.sameCommand")}</figcaption>
      <code tabindex="0" ref=${code}>${line}</code>
      <button class="plain" onClick=${copy} aria-live="polite">${copied ? t("frame.copied") : t("frame.copy")}</button>
    </figure>`;
}
