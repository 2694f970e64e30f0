// The command line that does the same as a button: every action shows it.
import { html, useRef, useState } from "../app/html.js";
import { t } from "../app/i18n.js";

export function Command({ line, label }) {
  const [copied, setCopied] = useState(false);
  const code = useRef(null);
  if (!line) return null;
  const copy = async () => {
    try { await navigator.clipboard.writeText(line); } catch {
      // Browsers forbid this without TLS: then the text is selected, to be copied by hand.
      getSelection().selectAllChildren(code.current);
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`
    <figure class="command">
      <figcaption>${label || t("app.sameCommand")}</figcaption>
      <code tabindex="0" ref=${code}>${line}</code>
      <button class="plain" onClick=${copy} aria-live="polite">${copied ? t("app.copied") : t("app.copy")}</button>
    </figure>`;
}
