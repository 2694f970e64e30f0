// What pages use of preact; its own types come with the npm package, which is not installed.
export const createContext: any;
export const Fragment: any;
export const h: any;
export const render: any;
