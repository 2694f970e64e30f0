// Asking the server: get, post and live streams, with every failure as one sentence.
import { useCallback, useEffect, useRef, useState } from "./html.js";

export class Failed extends Error {
  constructor(told, status) {
    super(told.error || `the page's server answered ${status}`);
    Object.assign(this, { kind: told.kind, what: told.what, next: told.next, status });
  }
}

// Make a path of parts that may hold any letter: path`/api/topics/${topic}`.
export const path = (texts, ...parts) =>
  texts.reduce((made, text, place) => made + encodeURIComponent(parts[place - 1]) + text);

// A query of what is set: query({ topic, limit: 20 }) is "?topic=…&limit=20".
export function query(values) {
  const said = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return said.length ? `?${new URLSearchParams(said.map(([name, value]) => [name, value === true ? "1" : value]))}` : "";
}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed({ error: "the page's server does not answer; is it still running?", kind: "Unreachable" }, 0);
  }
  let told = null;
  try { told = await response.json(); } catch { /* it says no in another way */ }
  // A server that was started again has another token: it asks for it.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Failed(told || {}, response.status);
  return told;
}

export const get = (url, options) => ask(url, options);

// Everything that is posted carries this header: no foreign page can send it.
export const post = (url, value) =>
  ask(url, { method: "POST", headers: { "Content-Type": "application/json", "X-Steelyard": "1" }, body: JSON.stringify(value ?? {}) });

// Get something when a page is shown, and again when its address changes: { value, error, busy, again }.
export function useGet(url) {
  const [state, setState] = useState({ value: undefined, error: null, busy: true, url: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!url) return undefined;
    const stop = new AbortController();
    setState((before) => ({ ...before, value: before.url === url ? before.value : undefined, busy: true, url }));
    get(url, { signal: stop.signal }).then(
      (value) => setState({ value, error: null, busy: false, url }),
      (error) => { if (error.name !== "AbortError") setState({ value: undefined, error, busy: false, url }); },
    );
    return () => stop.abort();
  }, [url, turn]);
  return { ...state, again: useCallback(() => setTurn((before) => before + 1), []) };
}

// Follow a stream: calls onValue with each value. Returns what ends it. It comes back by itself after a cut.
// A browser has six lines to a server for all its tabs, so a tab that nobody sees gives its line back after a while,
// unless it is to go on `whileHidden`.
const HIDDEN_MS = 3000;

export function follow(url, { onValue, onTrouble = () => {}, onState = () => {}, whileHidden = false }) {
  let source = null, timer = null, over = false, wait = 300;
  const close = () => { clearTimeout(timer); source?.close(); source = null; };
  const open = () => {
    close();
    source = new EventSource(url);
    source.onopen = () => { wait = 300; onState("live"); };
    source.onmessage = (event) => onValue(JSON.parse(event.data));
    source.addEventListener("trouble", (event) => onTrouble(JSON.parse(event.data)));
    source.addEventListener("end", () => { over = true; close(); onState("ended"); });
    source.onerror = () => {
      close();
      if (over) return;
      onState("lost");
      get("/api/about").catch(() => {}); // a stream does not tell why it was refused
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, 5000);
    };
  };
  const seen = () => {
    if (over) return;
    if (!document.hidden) { if (!source) open(); else clearTimeout(timer); }
    else if (source) timer = setTimeout(close, HIDDEN_MS);
  };
  if (!whileHidden) document.addEventListener("visibilitychange", seen);
  open();
  return () => { over = true; document.removeEventListener("visibilitychange", seen); close(); };
}

// Follow a stream while a page is shown: { value, trouble, state }, state being "opening", "live", "lost" or "ended".
export function useLive(url, take) {
  const [held, setHeld] = useState({ value: undefined, trouble: null, state: "opening" });
  const taking = useRef(take);
  taking.current = take;
  useEffect(() => {
    setHeld({ value: undefined, trouble: null, state: "opening" });
    if (!url) return undefined;
    return follow(url, {
      onValue: (value) => {
        if (taking.current) taking.current(value);
        setHeld({ value, trouble: null, state: "live" });
      },
      onTrouble: (trouble) => setHeld((before) => ({ ...before, trouble })),
      onState: (state) => setHeld((before) => ({ ...before, state })),
    });
  }, [url]);
  return held;
}
