import { html } from "../frame/html.js";

export const DeadLetters = () => html`<h1>DeadLetters</h1>`;
