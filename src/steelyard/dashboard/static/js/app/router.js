// Routing: each page has a URL, links are ordinary links, and going back works.
import { createContext, html, useContext, useEffect, useState } from "./html.js";

const PlaceContext = createContext(null);

const now = () => ({ path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) });

export function go(to, { replace = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new Event("steelyard:moved"));
}

// Change a part of the query and stay on the page: what is undefined or empty is removed.
export function goQuery(changes, { replace = true } = {}) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "") params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace });
}

export function Router({ children }) {
  const [place, setPlace] = useState(now());
  useEffect(() => {
    const moved = () => setPlace(now());
    const clicked = (event) => {
      const link = event.target.closest?.("a[href]");
      if (!link || link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
      if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      if (link.pathname.startsWith("/api/") || link.pathname === "/metrics") return;
      event.preventDefault();
      go(link.pathname + link.search);
      if (link.pathname !== place.path) scrollTo(0, 0);
    };
    addEventListener("popstate", moved);
    addEventListener("steelyard:moved", moved);
    document.addEventListener("click", clicked);
    return () => {
      removeEventListener("popstate", moved);
      removeEventListener("steelyard:moved", moved);
      document.removeEventListener("click", clicked);
    };
  });
  return html`<${PlaceContext.Provider} value=${place}>${children}<//>`;
}

// The current location: { path, query }.
export const usePlace = () => useContext(PlaceContext);

// Find the page of a path: routes are ["/topics/:topic", page] pairs; gives [page, { topic }] or null.
export function match(routes, path) {
  const parts = path.split("/").filter(Boolean);
  for (const [pattern, page] of routes) {
    const wanted = pattern.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    const found = {};
    const fits = wanted.every((part, place) => {
      if (!part.startsWith(":")) return part === parts[place];
      try { found[part.slice(1)] = decodeURIComponent(parts[place]); } catch { return false; }
      return true;
    });
    if (fits) return [page, found];
  }
  return null;
}
