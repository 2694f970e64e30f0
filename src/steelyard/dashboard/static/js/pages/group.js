import { html } from "../frame/html.js";

export const Group = () => html`<h1>Group</h1>`;
