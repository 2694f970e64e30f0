// Entry point: texts, routes, and the app shell.
import { html, render, useReducer } from "./app/html.js";
import { lazy } from "./app/lazy.js";
import { Router } from "./app/router.js";
import { Shell } from "./app/shell.js";
import { addTexts, firstLanguage, setLanguage } from "./app/i18n.js";
import { Overview } from "./pages/overview.js";
import brokers from "./i18n/brokers.js";
import deadLetters from "./i18n/dead_letters.js";
import app from "./i18n/app.js";
import groups from "./i18n/groups.js";
import messages from "./i18n/messages.js";
import offsets from "./i18n/offsets.js";
import overview from "./i18n/overview.js";
import plan from "./i18n/plan.js";
import producers from "./i18n/producers.js";
import topics from "./i18n/topics.js";

[app, brokers, deadLetters, groups, messages, offsets, overview, plan, producers, topics].forEach(addTexts);

// The first page is loaded with the shell; the others when they are opened, or when the browser is idle.
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
  ["/topics", lazy(load.topics, "Topics")],
  ["/topics/:topic", lazy(load.topic, "Topic")],
  ["/groups", lazy(load.groups, "Groups")],
  ["/groups/:group", lazy(load.group, "Group")],
  ["/groups/:group/plan", lazy(load.plan, "Plan")],
  ["/groups/:group/offsets", lazy(load.offsets, "Offsets")],
  ["/groups/:group/dead-letters", lazy(load.deadLetters, "DeadLetters")],
  ["/messages", lazy(load.messages, "Messages")],
  ["/messages/:topic/:broker/:queue/:offset", lazy(load.messages, "MessageAt")],
  ["/dead-letters", lazy(load.deadLetters, "DeadLetters")],
  ["/producers", lazy(load.producers, "Producers")],
  ["/brokers", lazy(load.brokers, "Brokers")],
  ["/brokers/:broker", lazy(load.brokers, "Brokers")],
];

function App() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  return html`<${Router}><${Shell} routes=${ROUTES} redraw=${redraw} /><//>`;
}

setLanguage(firstLanguage());
render(html`<${App} />`, document.getElementById("app"));

const idle = window.requestIdleCallback || ((work) => setTimeout(work, 1000));
idle(() => Object.values(load).forEach((each) => each().catch(() => {})), { timeout: 3000 });
