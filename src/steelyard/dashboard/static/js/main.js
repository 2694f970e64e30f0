// The page begins here: words, routes, and the frame around them.
import { html, render, useReducer } from "./frame/html.js";
import { later } from "./frame/later.js";
import { Router } from "./frame/router.js";
import { Shell } from "./frame/shell.js";
import { addWords, firstLanguage, setLanguage } from "./frame/words.js";
import { Overview } from "./pages/overview.js";
import brokers from "./words/brokers.js";
import deadLetters from "./words/dead_letters.js";
import frame from "./words/frame.js";
import groups from "./words/groups.js";
import messages from "./words/messages.js";
import offsets from "./words/offsets.js";
import overview from "./words/overview.js";
import plan from "./words/plan.js";
import producers from "./words/producers.js";
import topics from "./words/topics.js";

[frame, brokers, deadLetters, groups, messages, offsets, overview, plan, producers, topics].forEach(addWords);

// The first page comes with the frame; the others when somebody goes there, or when there is nothing else to do.
const load = {
  brokers: () => import("./pages/brokers.js"),
  deadLetters: () => import("./pages/dead_letters.js"),
  group: () => import("./pages/group.js"),
  groups: () => import("./pages/groups.js"),
  messages: () => import("./pages/messages.js"),
  offsets: () => import("./pages/offsets.js"),
  plan: () => import("./pages/plan.js"),
  producers: () => import("./pages/producers.js"),
  topic: () => import("./pages/topic.js"),
  topics: () => import("./pages/topics.js"),
};

const ROUTES = [
  ["/", Overview],
  ["/topics", later(load.topics, "Topics")],
  ["/topics/:topic", later(load.topic, "Topic")],
  ["/groups", later(load.groups, "Groups")],
  ["/groups/:group", later(load.group, "Group")],
  ["/groups/:group/plan", later(load.plan, "Plan")],
  ["/groups/:group/offsets", later(load.offsets, "Offsets")],
  ["/groups/:group/dead-letters", later(load.deadLetters, "DeadLetters")],
  ["/messages", later(load.messages, "Messages")],
  ["/messages/:topic/:broker/:queue/:offset", later(load.messages, "MessageAt")],
  ["/dead-letters", later(load.deadLetters, "DeadLetters")],
  ["/producers", later(load.producers, "Producers")],
  ["/brokers", later(load.brokers, "Brokers")],
  ["/brokers/:broker", later(load.brokers, "Brokers")],
];

function App() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  return html`<${Router}><${Shell} routes=${ROUTES} redraw=${redraw} /><//>`;
}

setLanguage(firstLanguage());
render(html`<${App} />`, document.getElementById("app"));

const idle = window.requestIdleCallback || ((work) => setTimeout(work, 1000));
idle(() => Object.values(load).forEach((each) => each().catch(() => {})), { timeout: 3000 });
