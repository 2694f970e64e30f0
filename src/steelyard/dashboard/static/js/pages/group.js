// A group: queue ownership, live, and its rebalance history.
import { path, useLive } from "../app/api.js";
import { ago, duration, time, whole } from "../app/format.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../app/html.js";
import { goQuery } from "../app/router.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Command } from "../components/command.js";
import { coloursOf, namesOf, withShortNames } from "../components/members.js";
import { RateHistory } from "../components/rate_history.js";
import { Empty, Fact, Facts, Warnings, Liveness, Loading, Notes } from "../components/status.js";
import { GroupTabs } from "../components/group_tabs.js";
import { Compact } from "./group/compact.js";
import { Grid } from "./group/grid.js";
import { eventAt, eventsOf, stopsOf, withNew } from "./group/history.js";
import { Rebalances, sizeOf } from "./group/rebalances.js";
import { liveGrid, pastGrid } from "./group/grid_model.js";
import { Timeline, whyOf } from "./group/timeline.js";

const MOST_CELLS = 3000, MOST_COLUMNS = 40, WRITE_MS = 250;
const TONES = { stable: "good", rebalancing: "warn", empty: "warn", unknown: "" };

// The time that is shown; null is now. The URL follows a moment later: browsers limit history updates.
function useMoment(asked) {
  const [at, setAt] = useState(asked);
  const timer = useRef(null);
  useEffect(() => { setAt(asked); }, [asked]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const go = useCallback((to) => {
    setAt(to);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => goQuery({ at: to === null ? null : Math.round(to) }), WRITE_MS);
  }, []);
  return [at, go];
}

export function Group({ group, query }) {
  title(group);
  const [records, setRecords] = useState([]);
  const live = useLive(path`/api/groups/${group}/live`, (value) => setRecords((known) => withNew(known, value.history, value.is_full)));
  const [at, go] = useMoment(/^\d{1,15}$/.test(query.at ?? "") ? Number(query.at) : null);
  const now = live.value?.status;
  const events = useMemo(() => eventsOf(records), [records]);
  const stops = useMemo(() => stopsOf(records), [records]);
  const { names, colours } = useMemo(() => {
    const snapshots = [...records.map((record) => record.owner_names), now?.members.map((member) => member.id) ?? []];
    const ids = [...snapshots.flat(), ...records.flatMap((record) => record.member_changes.map((each) => each.member))];
    return { names: namesOf(ids), colours: coloursOf([...snapshots, [...new Set(ids)]]) };
  }, [records, now?.members.map((member) => member.id).join()]);
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/groups">${t("app.groups")}</a></p>
      <h1>${group}</h1></div>
      ${now && html`<span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${t("groups.seenAt", { time: time(now.at_ms) })}</span>`}
    </div>
    <${GroupTabs} group=${group} here="grid" />
    <${Liveness} live=${live} />
    ${!now && !live.failure && html`<${Loading} />`}
    ${now && html`<${Shown} group=${group} query=${query} live=${live} now=${now} records=${records} events=${events} stops=${stops} names=${names} colours=${colours} at=${at} go=${go} />`}`;
}

function Shown({ group, query, live, now, records, events, stops, names, colours, at, go }) {
  const newest = events[events.length - 1] ?? null;
  const event = at === null ? newest : eventAt(events, at);
  const picture = useMemo(() => (at === null ? liveGrid(now, records, newest) : pastGrid(records, event, at)), [now, records, at]);
  const queues = now.queue_grids.filter((part) => !part.retry).reduce((sum, part) => sum + part.queues.length, 0);
  const cells = picture ? picture.members.length * picture.parts.reduce((sum, part) => sum + part.rows.length, 0) : 0;
  const isLarge = cells > MOST_CELLS || (picture?.members.length ?? 0) > MOST_COLUMNS;
  const compact = isLarge || query.form === "compact";
  const chosen = query.member && Object.keys(names).find((id) => names[id] === query.member);
  const shared = {
    picture, names, colours, broadcast: now.broadcast, showRetries: query.retries === "1",
    onRetries: () => goQuery({ retries: query.retries === "1" ? null : "1" }),
  };
  const commands = live.value.commands;
  return html`
    <${Facts}>
      <${Fact} name=${t("groups.members")} value=${whole(now.members.length)} />
      <${Fact} name=${t("groups.queues")} value=${whole(queues)} />
      <${Fact} name=${t("groups.lag")} value=${whole(now.lag)} />
      <${Fact} name=${t("groups.strategy")} value=${now.broadcast ? t("groups.broadcast") : now.strategy ?? "–"} hint=${now.strategy ? undefined : t("groups.noStrategy")} tone="small" />
      <${Fact} name=${t("groups.state")} value=${html`<span class=${TONES[now.state]} data-state=${now.state}>${t(`groups.state.${now.state}`)}</span>`} tone="small" />
      <${Fact} name=${t("groups.lastRebalance")} value=${newest ? `${time(newest.start)}${newest.lasted === null ? "" : ` · ${duration(newest.lasted)}`}` : "–"} tone="small" />
    <//>
    <${Warnings} sentences=${now.warnings.map((each) => withShortNames(each, names))} />
    <section class=${`card ownership ${at === null ? "" : "past"}`}>
      <div class="row head">
        <h2>${at === null ? t("groups.gridNow") : t("groups.gridThen", { time: time(at, { ms: true }) })}</h2>
        ${at !== null && html`<button class="main" onClick=${() => go(null)}>${t("groups.backToLive")}</button>`}
        ${!isLarge && picture && html`<button class="plain form" aria-pressed=${compact} onClick=${() => goQuery({ form: compact ? null : "compact" })}>${t("groups.compact")}</button>`}
      </div>
      ${event && html`<p class=${`reason ${at !== null || now.at_ms - event.end < 6000 ? "fresh" : ""}`} role="status">
        ${at === null && html`<span class="quiet">${t("groups.lastChange", { ago: ago(event.start) })}:</span> `}<strong>${whyOf(event, names, at)}</strong> <span class="quiet">${sizeOf(event)}</span></p>`}
      ${!picture && html`<${Empty}>${t("groups.nothingThen")}<//>`}
      ${picture && !picture.parts.length && html`<${Empty}>${t(at === null ? "groups.noQueues" : "groups.notKnownThen")}<//>`}
      ${picture && picture.parts.length > 0 && (compact
        ? html`<${Compact} ...${shared} chosen=${chosen} onChoose=${(id) => goQuery({ member: id && names[id] })} />`
        : html`<${Grid} ...${shared} />`)}
      ${at !== null && picture && html`<p class="quiet small">${t("groups.noLagThen")}</p>`}
    </section>
    <section class="card history" aria-label=${t("groups.history")}>
      <h2>${t("groups.history")}</h2>
      <${Timeline} events=${events} stops=${stops} at=${at} now=${now.at_ms} names=${names} event=${event} onGo=${go} />
    </section>
    <${RateHistory} url=${path`/api/groups/${group}/rates`} rateName=${t("groups.rate")} lag />
    <section class="card">
      <h2>${t("groups.rebalanceList")}</h2>
      <${Rebalances} events=${events} names=${names} at=${at} event=${event} onGo=${go} />
      <${Command} line=${commands.history} />
    </section>
    <${Notes} sentences=${now.notes.map((each) => withShortNames(each, names))} />
    <${Command} line=${commands.explain} />
    <${Command} line=${commands.show} />`;
}
