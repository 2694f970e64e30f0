import { html } from "../frame/html.js";

export const Topic = () => html`<h1>Topic</h1>`;
