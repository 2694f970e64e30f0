// What pages use of preact's hooks.
export function useCallback<T>(callback: T, inputs: readonly unknown[]): T;
export function useContext(context: any): any;
export function useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useErrorBoundary(callback?: (error: any) => void): [any, () => void];
export function useId(): string;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useReducer(reducer: (state: any, action?: any) => any, first: any): [any, (action?: any) => void];
export function useRef<T = any>(first?: T): { current: any };
export function useState(first?: any): [any, (value: any) => void];
