import { html } from "../frame/html.js";

export const Overview = () => html`<h1>Overview</h1>`;
