// A change with its preview: what would change is shown with its command line, then it is done or left alone.
import { post } from "../frame/api.js";
import { html, useState } from "../frame/html.js";
import { t } from "../frame/words.js";
import { Command } from "./command.js";
import { Problem } from "./states.js";

// Keeps what an action is at: { busy, error, preview, done, command, look(value), act(value), reset() }.
// tryUrl is posted to for a preview, actUrl for the change itself; both answer { command, value }.
export function useAction(tryUrl, actUrl) {
  const [state, setState] = useState({ busy: false, error: null, preview: null, done: null, command: null });
  const run = async (url, value, kept) => {
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      const told = await post(url, value);
      setState({ busy: false, error: null, preview: null, done: null, command: told.command, [kept]: told.value });
      return told.value;
    } catch (error) {
      setState((before) => ({ ...before, busy: false, error }));
      return null;
    }
  };
  return {
    ...state,
    look: (value) => run(tryUrl, value, "preview"),
    act: (value) => run(actUrl, value, "done"),
    reset: () => setState({ busy: false, error: null, preview: null, done: null, command: null }),
  };
}

// The end of a preview: its command line, and the buttons that do it or leave it alone.
export function Confirm({ action, about, onApply, label, danger = false }) {
  return html`
    ${action.error && html`<${Problem} error=${action.error} />`}
    <${Command} line=${action.command} />
    ${about?.read_only && html`<p class="quiet">${t("frame.readOnlyHint")}</p>`}
    <div class="row end">
      <button onClick=${action.reset}>${t("frame.cancel")}</button>
      <button class=${danger ? "bad" : "main"} disabled=${action.busy || about?.read_only} onClick=${onApply}>${label || t("frame.apply")}</button>
    </div>`;
}
