// Members and queues in a plan: a letter and a colour for each member, queues by topic and broker.
import { html } from "../../app/html.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// The letter of a member by its place; after Z come numbers, nobody is a dot.
export const markOf = (place) => (place < 0 ? "·" : LETTERS[place] ?? String(place + 1));

export const Mark = ({ place, colour }) => html`<span class=${`letter ${place < 0 ? "nobody" : `member-${colour}`}`} aria-hidden="true">${markOf(place)}</span>`;

export const queueName = (queue) => `${queue.topic}@${queue.broker}:${queue.queue_id}`;

// Queues by topic and broker, a group's retries last: [{ topic, broker, numbers }].
export function partsOf(queues) {
  const parts = new Map();
  queues.forEach((queue, number) => {
    const key = JSON.stringify([queue.topic, queue.broker]);
    if (!parts.has(key)) parts.set(key, { key, topic: queue.topic, broker: queue.broker, numbers: [] });
    parts.get(key).numbers.push(number);
  });
  const isRetry = (part) => part.topic.startsWith("%RETRY%");
  return [...parts.values()].sort((a, b) => isRetry(a) - isRetry(b));
}
