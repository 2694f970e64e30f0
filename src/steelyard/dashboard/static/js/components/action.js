// An action with its preview: what would change is shown with its command line, then it is applied or cancelled.
import { post } from "../app/api.js";
import { html, useState } from "../app/html.js";
import { t } from "../app/i18n.js";
import { Command } from "./command.js";
import { Problem } from "./status.js";

// The state of an action: { busy, error, preview, done, command, showPreview(value), act(value), reset() }.
// previewUrl is posted to for a preview, actUrl for the change itself; both return { command, value }.
export function useAction(previewUrl, actUrl) {
  const [state, setState] = useState({ busy: false, error: null, preview: null, done: null, command: null });
  const run = async (url, value, kept) => {
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      const response = await post(url, value);
      setState({ busy: false, error: null, preview: null, done: null, command: response.command, [kept]: response.value });
      return response.value;
    } catch (error) {
      setState((before) => ({ ...before, busy: false, error }));
      return null;
    }
  };
  return {
    ...state,
    showPreview: (value) => run(previewUrl, value, "preview"),
    act: (value) => run(actUrl, value, "done"),
    reset: () => setState({ busy: false, error: null, preview: null, done: null, command: null }),
  };
}

// The end of a preview: its command line, and the buttons to apply or cancel it.
export function Confirm({ action, about, onApply, label, danger = false }) {
  return html`
    ${action.error && html`<${Problem} error=${action.error} />`}
    <${Command} line=${action.command} />
    ${about?.read_only && html`<p class="quiet">${t("app.readOnlyHint")}</p>`}
    <div class="row end">
      <button onClick=${action.reset}>${t("app.cancel")}</button>
      <button class=${danger ? "bad" : "main"} disabled=${action.busy || about?.read_only} onClick=${onApply}>${label || t("app.apply")}</button>
    </div>`;
}
