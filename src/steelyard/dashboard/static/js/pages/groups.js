import { html } from "../frame/html.js";

export const Groups = () => html`<h1>Groups</h1>`;
