// Dry run of a rebalance: members dragged in and out, strategies side by side, and what each would move.
import { path, query as asked, useGet } from "../app/api.js";
import { html, useEffect, useMemo, useRef } from "../app/html.js";
import { goQuery } from "../app/router.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Command } from "../components/command.js";
import { coloursOf, withShortNames } from "../components/members.js";
import { Empty, Warnings, Loading, Notes, Problem } from "../components/status.js";
import { GroupTabs } from "../components/group_tabs.js";
import { Changes } from "./plan/changes.js";
import { Members } from "./plan/members.js";
import { Strategies } from "./plan/strategies.js";

const AGAIN_MS = 3000;

// Names in the URL are separated by commas; the server parses them in the same way.
const listed = (text) => (text || "").split(",").filter(Boolean).map((name) => name.replaceAll("%2C", ",").replaceAll("%25", "%"));
const joined = (names) => names.map((name) => name.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");

export function Plan({ group, query }) {
  title(t("plan.title", { group }));
  const { join = "", leave = "", strategy = "" } = query;
  const got = useGet(path`/api/groups/${group}/plan` + asked({ join, leave, strategy }));
  const last = useRef(null);
  if (got.value) last.current = got.value;
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) got.again(); }, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  const plan = last.current;
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/groups">${t("app.groups")}</a> / <a href=${path`/groups/${group}`}>${group}</a></p>
      <h1>${t("plan.title", { group })}</h1></div>
      <p class="badge good untouched">${t("plan.untouched")}</p>
    </div>
    <${GroupTabs} group=${group} here="plan" />
    ${got.error && html`<${Problem} error=${got.error} again=${got.again} />`}
    ${!plan && !got.error && html`<${Loading} />`}
    ${plan && html`<${Shown} plan=${plan} join=${listed(join)} leave=${listed(leave)} strategy=${strategy} />`}`;
}

function Shown({ plan, join, leave, strategy }) {
  const names = useMemo(() => plan.members.map((member) => member.name), [plan]);
  const byId = useMemo(() => Object.fromEntries(plan.members.map((member) => [member.id, member.name])), [plan]);
  const colours = useMemo(() => coloursOf([[...new Set([...names, ...join])]]), [names, join.join()]);
  const tried = plan.strategies.filter((each) => each.unavailable_reason === null);
  // All strategies were tried already: another choice need not wait for the server.
  const chosen = tried.find((each) => each.name === strategy) ?? tried.find((each) => each.name === plan.chosen);
  const wish = (changes) => goQuery({ join: joined(changes.join ?? join), leave: joined(changes.leave ?? leave) });
  const staying = plan.members.filter((member) => member.change !== "leaves").length;
  return html`
    <${Warnings} sentences=${plan.warnings.map((each) => withShortNames(each, byId))} />
    <${Members} plan=${plan} chosen=${chosen} join=${join} leave=${leave} colours=${colours} onWish=${wish} />
    <div class="row summary"><p role="status">${chosen && t("plan.summary", {
      members: t("plan.members", { n: staying }), queues: t("plan.queues", { n: plan.queues.length }), strategy: chosen.java_name || chosen.name,
      moves: t("plan.moves", { n: chosen.moved }), least: chosen.min_moves,
    })}</p>
      ${(join.length > 0 || leave.length > 0 || strategy) && html`<button onClick=${() => goQuery({ join: null, leave: null, strategy: null })}>${t("plan.startOver")}</button>`}</div>
    ${plan.broadcast ? html`<${Empty}>${t("plan.broadcast")}<//>` : !plan.queues.length ? html`<${Empty}>${t("plan.noQueues")}<//>` : html`
      <${Strategies} plan=${plan} chosen=${chosen} colours=${colours} onChoose=${(name) => goQuery({ strategy: name })} />
      ${chosen && html`<${Changes} plan=${plan} chosen=${chosen} colours=${colours} />`}`}
    <${Command} line=${plan.command} />
    <${Notes} sentences=${plan.notes} />`;
}
