// A window over the page: the browser keeps the focus in it, and Escape closes it.
import { html, useEffect, useId, useRef } from "../app/html.js";
import { t } from "../app/i18n.js";

export function Dialog({ title, onClose, wide = false, children }) {
  const box = useRef(null);
  const id = useId();
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current.showModal();
    // However it is closed, the focus returns to where it was.
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose}
      onClick=${(event) => { if (event.target === box.current) box.current.close(); }}>
      <div class="dialog">
        <header><h2 id=${id}>${title}</h2>
          <button class="plain" onClick=${() => box.current.close()} aria-label=${t("app.close")}>✕</button></header>
        ${children}
      </div>
    </dialog>`;
}
