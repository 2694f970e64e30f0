// A window over the page: the browser keeps the focus in it, and Escape closes it.
import { html, useEffect, useId, useRef } from "../frame/html.js";
import { t } from "../frame/words.js";

export function Dialog({ title, onClose, wide = false, children }) {
  const box = useRef(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    // However it is closed, whoever came by keyboard is back where they were.
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose}
      onClick=${(event) => { if (event.target === box.current) box.current.close(); }}>
      <div class="dialog">
        <header><h2 id=${id}>${title}</h2>
          <button class="plain" onClick=${() => box.current.close()} aria-label=${t("frame.close")}>✕</button></header>
        ${children}
      </div>
    </dialog>`;
}
