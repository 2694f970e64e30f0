import { html } from "../frame/html.js";

export const Offsets = () => html`<h1>Offsets</h1>`;
