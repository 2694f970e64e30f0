// Words in English and Chinese. t(key, {n: 3}) finds a sentence and fills in {n}; every page has a file of its own.

const TABLES = { en: {}, zh: {} };

// Add a page's words: { en: { key: "…" }, zh: { key: "…" } }. Keys begin with the page's name.
export function addWords(words) {
  Object.assign(TABLES.en, words.en);
  Object.assign(TABLES.zh, words.zh);
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
  // A sentence for one and one for many: "{n} queue|{n} queues".
  const forms = text.split("|");
  const form = forms.length > 1 && values.n !== 1 ? forms[1] : forms[0];
  return form.replace(/\{(\w+)\}/g, (_, name) => (values[name] === undefined ? `{${name}}` : written(values[name])));
}
