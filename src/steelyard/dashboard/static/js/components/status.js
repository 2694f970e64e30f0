// Loading, failure and empty states; warnings, notes and figures.
import { html } from "../app/html.js";
import { t } from "../app/i18n.js";

export const Loading = () => html`<p class="quiet" role="status">${t("app.loading")}</p>`;

export const Empty = ({ children }) => html`<p class="empty">${children || t("app.nothing")}</p>`;

// A failure in a sentence: what happened, and what to do next. Takes an Error, or the failure event of a stream.
export function Problem({ error, again }) {
  return html`
    <div class="problem" role="alert"><strong>${t("app.problem")}:</strong> ${error.message || error.error}
      ${again && html` <button onClick=${again}>${t("app.again")}</button>`}</div>`;
}

// Whether the data is live: for pages that follow a stream ({ state, failure } of useLive).
export function Liveness({ live }) {
  if (live.failure) return html`<${Problem} error=${live.failure} />`;
  if (live.state === "lost") return html`<p class="problem" role="status">${t("app.lost")}</p>`;
  return null;
}

// Warnings; nothing is shown if there are none, unless `always`.
export function Warnings({ sentences, always = false }) {
  if (!sentences?.length && !always) return null;
  return html`
    <section class="warnings" aria-label=${t("app.warnings")}>
      <h2>${t("app.warnings")}</h2>
      ${sentences.length ? html`<ul>${sentences.map((each) => html`<li key=${each}>${each}</li>`)}</ul>` : html`<p class="good">${t("app.noWarnings")}</p>`}
    </section>`;
}

// What a cluster does not report: named, never guessed.
export function Notes({ sentences }) {
  if (!sentences?.length) return null;
  return html`
    <section class="notes" aria-label=${t("app.notes")}>
      <h2>${t("app.notes")}</h2>
      <ul>${sentences.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
    </section>`;
}

// A number that matters, with its name: <${Fact} name="Lag" value="1,204" />
export const Fact = ({ name, value, hint, tone = "" }) => html`
  <div class=${`fact ${tone}`}><dt>${name}</dt><dd title=${hint}>${value}</dd></div>`;
export const Facts = ({ children }) => html`<dl class="facts">${children}</dl>`;
