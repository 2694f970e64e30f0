import { html } from "../frame/html.js";

export const Plan = () => html`<h1>Plan</h1>`;
