// Messages of a topic: found in every way there is, or followed as they come. All of it stands in the address.
import { query as written, useGet } from "../frame/api.js";
import { html } from "../frame/html.js";
import { title } from "../frame/shell.js";
import { t } from "../frame/words.js";
import { Find } from "./messages/find.js";
import { Tail } from "./messages/tail.js";

export { MessageAt } from "./messages/one.js";

export function Messages({ query, about }) {
  const topic = query.topic || "";
  const tails = query.tail === "1";
  title(topic ? `${topic} · ${t("frame.messages")}` : t("frame.messages"));
  const topics = useGet("/api/message-topics").value?.topics;
  const queues = useGet(topic && `/api/message-queues${written({ topic })}`).value?.queues;
  const kept = { topic, queue: query.queue, tag: query.tag, key: query.key, text: query.text };
  return html`
    <div class="page-head"><div><h1>${t("frame.messages")}</h1><p>${t("messages.about")}</p></div></div>
    <nav class="tabs" aria-label=${t("messages.ways")}>
      <a href=${`/messages${written({ ...kept, queue: kept.queue?.includes(",") ? "" : kept.queue, by: query.key ? "key" : undefined })}`} aria-current=${tails ? undefined : "page"}>${t("messages.find")}</a>
      <a href=${`/messages${written({ ...kept, tail: true })}`} aria-current=${tails ? "page" : undefined}>${t("messages.tail")}</a>
    </nav>
    ${topics && html`<datalist id="message-topics">${topics.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
    ${tails ? html`<${Tail} query=${query} queues=${queues} about=${about} />` : html`<${Find} query=${query} queues=${queues} about=${about} />`}`;
}
