// The views of one group: ordinary links, so each has a URL.
import { path } from "../app/api.js";
import { html } from "../app/html.js";
import { t } from "../app/i18n.js";

export function GroupTabs({ group, here }) {
  const base = path`/groups/${group}`;
  const tabs = [["grid", base], ["plan", `${base}/plan`], ["offsets", `${base}/offsets`], ["deadLetters", `${base}/dead-letters`]];
  return html`
    <nav class="tabs" aria-label=${t("app.tabs", { group })}>
      ${tabs.map(([name, href]) => html`<a key=${name} href=${href} aria-current=${here === name ? "page" : undefined}>${t(`app.tab.${name}`)}</a>`)}
    </nav>`;
}
