// Texts in English and Chinese. t(key, {n: 3}) finds a text and fills in {n}; every page has its own file.

const TABLES = { en: {}, zh: {} };

// Add the texts of a page: { en: { key: "…" }, zh: { key: "…" } }. Keys begin with the name of the page.
export function addTexts(texts) {
  Object.assign(TABLES.en, texts.en);
  Object.assign(TABLES.zh, texts.zh);
}

export const LANGUAGES = { en: "English", zh: "中文" };

export function firstLanguage() {
  const kept = localStorage.getItem("steelyard.language");
  if (kept in TABLES) return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

let current = "en";
export function setLanguage(language) {
  current = language;
  document.documentElement.lang = language;
  localStorage.setItem("steelyard.language", language);
}
export const language = () => current;

const GROUPED = new Intl.NumberFormat("en-GB");
const written = (value) => (Number.isInteger(value) ? GROUPED.format(value) : String(value));

export function t(key, values = {}) {
  const text = TABLES[current][key] ?? TABLES.en[key] ?? key;
  // Singular and plural: "{n} queue|{n} queues".
  const forms = text.split("|");
  const form = forms.length > 1 && values.n !== 1 ? forms[1] : forms[0];
  return form.replace(/\{(\w+)\}/g, (_, name) => (values[name] === undefined ? `{${name}}` : written(values[name])));
}
