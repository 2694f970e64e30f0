// What pages are written with: the functions of preact, and html`…` for markup.
import { createContext, Fragment, h, render } from "../../vendor/preact.js";
import htm from "../../vendor/htm.js";

export { createContext, Fragment, h, render };
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "../../vendor/hooks.js";
export const html = htm.bind(h);
