// What is shown while something is not there: a moment's wait, a problem, nothing at all, hazards and notes.
import { html } from "../frame/html.js";
import { t } from "../frame/words.js";

export const Loading = () => html`<p class="quiet" role="status">${t("frame.loading")}</p>`;

export const Empty = ({ children }) => html`<p class="empty">${children || t("frame.nothing")}</p>`;

// A failure in a sentence: what happened, and what to do next. Takes an Error, or what a stream said of its trouble.
export function Problem({ error, again }) {
  return html`
    <div class="problem" role="alert"><strong>${t("frame.problem")}:</strong> ${error.message || error.error}
      ${again && html` <button onClick=${again}>${t("frame.again")}</button>`}</div>`;
}

// Whether what is shown is alive: for pages that follow a stream ({ state, trouble } of useLive).
export function Liveness({ live }) {
  if (live.trouble) return html`<${Problem} error=${live.trouble} />`;
  if (live.state === "lost") return html`<p class="problem" role="status">${t("frame.lost")}</p>`;
  return null;
}

// Sentences about what looks wrong; nothing is said of it if there is none, unless `always`.
export function Hazards({ sentences, always = false }) {
  if (!sentences?.length && !always) return null;
  return html`
    <section class="hazards" aria-label=${t("frame.hazards")}>
      <h2>${t("frame.hazards")}</h2>
      ${sentences.length ? html`<ul>${sentences.map((each) => html`<li key=${each}>${each}</li>`)}</ul>` : html`<p class="good">${t("frame.noHazards")}</p>`}
    </section>`;
}

// What a cluster cannot tell: said, never guessed.
export function Notes({ sentences }) {
  if (!sentences?.length) return null;
  return html`
    <section class="notes" aria-label=${t("frame.notes")}>
      <h2>${t("frame.notes")}</h2>
      <ul>${sentences.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
    </section>`;
}

// A number that matters, with its name: <${Fact} name="Lag" value="1,204" />
export const Fact = ({ name, value, hint, tone = "" }) => html`
  <div class=${`fact ${tone}`}><dt>${name}</dt><dd title=${hint}>${value}</dd></div>`;
export const Facts = ({ children }) => html`<dl class="facts">${children}</dl>`;
