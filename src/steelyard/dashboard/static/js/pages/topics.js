import { html } from "../frame/html.js";

export const Topics = () => html`<h1>Topics</h1>`;
