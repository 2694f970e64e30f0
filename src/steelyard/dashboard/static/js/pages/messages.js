import { html } from "../frame/html.js";

export const Messages = () => html`<h1>Messages</h1>`;
export const MessageAt = () => html`<h1>Message</h1>`;
