// Messages of a topic: search, or a live tail. All of the form is in the URL.
import { query as written, useGet } from "../app/api.js";
import { html } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Search } from "./messages/search.js";
import { Tail } from "./messages/tail.js";

export { MessageAt } from "./messages/message.js";

export function Messages({ query, about }) {
  const topic = query.topic || "";
  const tails = query.tail === "1";
  title(topic ? `${topic} · ${t("app.messages")}` : t("app.messages"));
  const topics = useGet("/api/message-topics").value?.topics;
  const queues = useGet(topic && `/api/message-queues${written({ topic })}`).value?.queues;
  const kept = { topic, queue: query.queue, tag: query.tag, key: query.key, text: query.text };
  return html`
    <div class="page-head"><div><h1>${t("app.messages")}</h1><p>${t("messages.about")}</p></div></div>
    <nav class="tabs" aria-label=${t("messages.ways")}>
      <a href=${`/messages${written({ ...kept, queue: kept.queue?.includes(",") ? "" : kept.queue, by: query.key ? "key" : undefined })}`} aria-current=${tails ? undefined : "page"}>${t("messages.find")}</a>
      <a href=${`/messages${written({ ...kept, tail: true })}`} aria-current=${tails ? "page" : undefined}>${t("messages.tail")}</a>
    </nav>
    ${topics && html`<datalist id="message-topics">${topics.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
    ${tails ? html`<${Tail} query=${query} queues=${queues} about=${about} />` : html`<${Search} query=${query} queues=${queues} about=${about} />`}`;
}
