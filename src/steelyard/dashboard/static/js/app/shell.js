// The app shell around every page: navigation, the cluster, language and theme, and keyboard shortcuts.
import { get } from "./api.js";
import { html, useEffect, useErrorBoundary, useRef, useState } from "./html.js";
import { go, match, usePlace } from "./router.js";
import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import { Dialog } from "../components/dialog.js";
import { Problem } from "../components/status.js";

export const PLACES = [
  ["o", "/", "overview"],
  ["t", "/topics", "topics"],
  ["g", "/groups", "groups"],
  ["m", "/messages", "messages"],
  ["d", "/dead-letters", "deadLetters"],
  ["p", "/producers", "producers"],
  ["b", "/brokers", "brokers"],
];

const isHere = (href, path) => (href === "/" ? path === "/" : path === href || path.startsWith(`${href}/`));

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("steelyard.theme") || "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("steelyard.theme", theme);
    dispatchEvent(new Event("steelyard:theme"));
  }, [theme]);
  return [theme, setTheme];
}

// g then a letter goes to a page, / searches, ? shows the shortcuts.
function useKeys(showHelp) {
  const waiting = useRef(0);
  useEffect(() => {
    const pressed = (event) => {
      if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
      if (event.key === "?") { showHelp(true); event.preventDefault(); return; }
      if (event.key === "/") {
        const box = /** @type {HTMLInputElement | null} */ (document.querySelector("main [data-search]"));
        if (box) { box.focus(); box.select(); event.preventDefault(); }
        return;
      }
      if (event.timeStamp - waiting.current < 2000) {
        const place = PLACES.find(([key]) => key === event.key);
        waiting.current = 0;
        if (place) { go(place[1]); event.preventDefault(); }
      } else if (event.key === "g") waiting.current = event.timeStamp;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

export function Shell({ routes, redraw }) {
  const place = usePlace();
  const [about, setAbout] = useState(null);
  const [theme, setTheme] = useTheme();
  const [helps, showHelp] = useState(false);
  const main = useRef(null);
  const first = useRef(true);
  useKeys(showHelp);
  useEffect(() => { get("/api/about").then(setAbout, () => {}); }, []);
  useEffect(() => {
    // Screen readers announce the new page.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [place.path]);
  const found = match(routes, place.path);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>${t("app.skip")}</a>
    <header class="top">
      <a class="brand" href="/"><img src="/static/icon.svg" alt="" width="26" height="26" /> <span>Steelyard</span></a>
      <nav aria-label=${t("app.pages")}>
        ${PLACES.map(([, href, name]) => html`
          <a key=${href} href=${href} aria-current=${isHere(href, place.path) ? "page" : undefined}>${t(`app.${name}`)}</a>`)}
      </nav>
      <div class="aside">
        ${about?.read_only && html`<span class="badge warn">${t("app.readOnly")}</span>`}
        ${about && html`<span class="where mono" title=${t("app.cluster")}>${about.namesrv}</span>`}
        <label class="choice"><span class="hidden">${t("app.language")}</span>
          <select value=${language()} onChange=${(event) => { setLanguage(event.target.value); redraw(); }}>
            ${Object.entries(LANGUAGES).map(([code, name]) => html`<option key=${code} value=${code} lang=${code}>${name}</option>`)}
          </select></label>
        <label class="choice"><span class="hidden">${t("app.theme")}</span>
          <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
            ${["auto", "light", "dark"].map((each) => html`<option key=${each} value=${each}>${t(`app.theme.${each}`)}</option>`)}
          </select></label>
        <button class="plain" onClick=${() => showHelp(true)} aria-label=${t("app.keys")} title=${t("app.keys")}>?</button>
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      <${Safely} key=${place.path}>
        ${found ? html`<${found[0]} ...${found[1]} query=${place.query} about=${about} />` : html`<${NoPage} path=${place.path} />`}
      <//>
    </main>
    ${helps && html`<${Keys} onClose=${() => showHelp(false)} />`}`;
}

function NoPage({ path }) {
  title("");
  return html`<h1>${t("app.noPage", { path })}</h1><p><a href="/">${t("app.overview")}</a></p>`;
}

// A page that fails shows its error, and the shell stays.
function Safely({ children }) {
  const [error] = useErrorBoundary((thrown) => console.error(thrown));
  return error ? html`<${Problem} error=${error} />` : children;
}

function Keys({ onClose }) {
  const rows = [
    ...PLACES.map(([key, , name]) => [`g ${key}`, t(`app.${name}`)]),
    ["/", t("app.key.search")],
    ["← →", t("app.key.scrub")],
    ["space", t("app.key.pause")],
    ["?", t("app.keys")],
  ];
  return html`
    <${Dialog} title=${t("app.keys")} onClose=${onClose}>
      <dl class="keys">${rows.map(([key, what]) => html`<div key=${key}><dt>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <//>`;
}

export function title(text) {
  document.title = text ? `${text} · Steelyard` : "Steelyard";
}
