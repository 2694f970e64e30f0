// The views of one group: ordinary links, so each has an address.
import { path } from "../frame/api.js";
import { html } from "../frame/html.js";
import { t } from "../frame/words.js";

export function GroupTabs({ group, here }) {
  const base = path`/groups/${group}`;
  const tabs = [["grid", base], ["plan", `${base}/plan`], ["offsets", `${base}/offsets`], ["deadLetters", `${base}/dead-letters`]];
  return html`
    <nav class="tabs" aria-label=${t("frame.tabs", { group })}>
      ${tabs.map(([name, href]) => html`<a key=${name} href=${href} aria-current=${here === name ? "page" : undefined}>${t(`frame.tab.${name}`)}</a>`)}
    </nav>`;
}
