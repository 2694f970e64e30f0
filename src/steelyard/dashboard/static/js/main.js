// The page begins here: words, routes, and the frame around them.
import { html, render, useReducer } from "./frame/html.js";
import { Router } from "./frame/router.js";
import { Shell } from "./frame/shell.js";
import { addWords, firstLanguage, LanguageContext, language, setLanguage } from "./frame/words.js";
import { Brokers } from "./pages/brokers.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { Group } from "./pages/group.js";
import { Groups } from "./pages/groups.js";
import { MessageAt, Messages } from "./pages/messages.js";
import { Offsets } from "./pages/offsets.js";
import { Overview } from "./pages/overview.js";
import { Plan } from "./pages/plan.js";
import { Producers } from "./pages/producers.js";
import { Topic } from "./pages/topic.js";
import { Topics } from "./pages/topics.js";
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

const ROUTES = [
  ["/", Overview],
  ["/topics", Topics],
  ["/topics/:topic", Topic],
  ["/groups", Groups],
  ["/groups/:group", Group],
  ["/groups/:group/plan", Plan],
  ["/groups/:group/offsets", Offsets],
  ["/groups/:group/dead-letters", DeadLetters],
  ["/messages", Messages],
  ["/messages/:topic/:broker/:queue/:offset", MessageAt],
  ["/dead-letters", DeadLetters],
  ["/producers", Producers],
  ["/brokers", Brokers],
  ["/brokers/:broker", Brokers],
];

function App() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  return html`<${LanguageContext.Provider} value=${language()}><${Router}><${Shell} routes=${ROUTES} redraw=${redraw} /><//><//>`;
}

setLanguage(firstLanguage());
render(html`<${App} />`, document.getElementById("app"));
