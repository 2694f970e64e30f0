// Requests to the server: get, post and live streams, with every failure as one sentence.
import { useCallback, useEffect, useRef, useState } from "./html.js";

export class Failed extends Error {
  constructor(failure, status) {
    super(failure.error || `the dashboard's server answered ${status}`);
    Object.assign(this, { kind: failure.kind, what: failure.what, next: failure.next, status });
  }
}

// Make a path of parts with any characters: path`/api/topics/${topic}`.
export const path = (texts, ...parts) =>
  texts.reduce((made, text, place) => made + encodeURIComponent(parts[place - 1]) + text);

// A query of what is set: query({ topic, limit: 20 }) is "?topic=…&limit=20".
export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, value === true ? "1" : value]))}` : "";
}

async function request(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed({ error: "the dashboard's server does not answer; is it still running?", kind: "Unreachable" }, 0);
  }
  let value = null;
  try { value = await response.json(); } catch { /* a failure without JSON */ }
  // A restarted server has another token: the reload shows its login.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Failed(value || {}, response.status);
  return value;
}

export const get = (url, options) => request(url, options);

// Every POST carries this header: no foreign page can send it.
export const post = (url, value) =>
  request(url, { method: "POST", headers: { "Content-Type": "application/json", "X-Steelyard": "1" }, body: JSON.stringify(value ?? {}) });

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

// Follow a stream: calls onValue with each value. Returns a function that ends it. It reconnects by itself.
// A browser has six connections to a server for all its tabs, so a hidden tab closes its own after a while,
// unless it is to go on `whileHidden`.
const HIDDEN_MS = 3000;

/**
 * @param {string} url
 * @param {{ onValue: (value: any) => void, onFailure?: (failure: any) => void, onState?: (state: string) => void, whileHidden?: boolean }} options
 */
export function follow(url, { onValue, onFailure = () => {}, onState = () => {}, whileHidden = false }) {
  let source = null, timer = null, over = false, wait = 300;
  const close = () => { clearTimeout(timer); source?.close(); source = null; };
  const open = () => {
    close();
    source = new EventSource(url);
    source.onopen = () => { wait = 300; onState("live"); };
    source.onmessage = (event) => onValue(JSON.parse(event.data));
    source.addEventListener("failure", (event) => onFailure(JSON.parse(event.data)));
    source.addEventListener("end", () => { over = true; close(); onState("ended"); });
    source.onerror = () => {
      close();
      if (over) return;
      onState("lost");
      get("/api/about").catch(() => {}); // an EventSource does not say why it was rejected
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, 5000);
    };
  };
  const visibilityChanged = () => {
    if (over) return;
    if (!document.hidden) { if (!source) open(); else clearTimeout(timer); }
    else if (source) timer = setTimeout(close, HIDDEN_MS);
  };
  if (!whileHidden) document.addEventListener("visibilitychange", visibilityChanged);
  open();
  return () => { over = true; document.removeEventListener("visibilitychange", visibilityChanged); close(); };
}

// Follow a stream while a page is shown: { value, failure, state }, state being "opening", "live", "lost" or "ended".
export function useLive(url, onValue) {
  const [held, setHeld] = useState({ value: undefined, failure: null, state: "opening" });
  const callback = useRef(onValue);
  callback.current = onValue;
  useEffect(() => {
    setHeld({ value: undefined, failure: null, state: "opening" });
    if (!url) return undefined;
    return follow(url, {
      onValue: (value) => {
        if (callback.current) callback.current(value);
        setHeld({ value, failure: null, state: "live" });
      },
      onFailure: (failure) => setHeld((before) => ({ ...before, failure })),
      onState: (state) => setHeld((before) => ({ ...before, state })),
    });
  }, [url]);
  return held;
}
