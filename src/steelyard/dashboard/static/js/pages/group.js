// A group: who has which queue, live, and how it came to be so.
import { path, useLive } from "../frame/api.js";
import { ago, duration, time, whole } from "../frame/format.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../frame/html.js";
import { goQuery } from "../frame/router.js";
import { title } from "../frame/shell.js";
import { t } from "../frame/words.js";
import { Command } from "../parts/command.js";
import { coloursOf, namesOf, said } from "../parts/members.js";
import { Empty, Fact, Facts, Hazards, Liveness, Loading, Notes } from "../parts/states.js";
import { GroupTabs } from "../parts/tabs.js";
import { Compact } from "./group/compact.js";
import { Grid } from "./group/grid.js";
import { eventAt, eventsOf, stopsOf, withNew } from "./group/history.js";
import { Moves, sizeOf } from "./group/moves.js";
import { livePicture, pastPicture } from "./group/picture.js";
import { Timeline, whyOf } from "./group/timeline.js";

const MOST_CELLS = 3000, MOST_COLUMNS = 40, WRITE_MS = 250;
const TONES = { settled: "good", moving: "warn", empty: "warn", unknown: "" };

// The time that is looked at; null is now. The address has it, a moment later: browsers refuse to be told too often.
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
  const live = useLive(path`/api/groups/${group}/live`, (value) => setRecords((known) => withNew(known, value.moves, value.is_first)));
  const [at, go] = useMoment(/^\d{1,15}$/.test(query.at ?? "") ? Number(query.at) : null);
  const now = live.value?.now;
  const events = useMemo(() => eventsOf(records), [records]);
  const stops = useMemo(() => stopsOf(records), [records]);
  const { names, colours } = useMemo(() => {
    const sightings = [...records.map((record) => record.names), now?.members.map((member) => member.id) ?? []];
    const ids = [...sightings.flat(), ...records.flatMap((record) => record.changed.map((each) => each.member))];
    return { names: namesOf(ids), colours: coloursOf([...sightings, [...new Set(ids)]]) };
  }, [records, now?.members.map((member) => member.id).join()]);
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/groups">${t("frame.groups")}</a></p>
      <h1>${group}</h1></div>
      ${now && html`<span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${t("groups.seenAt", { time: time(now.at_ms) })}</span>`}
    </div>
    <${GroupTabs} group=${group} here="grid" />
    <${Liveness} live=${live} />
    ${!now && !live.trouble && html`<${Loading} />`}
    ${now && html`<${Shown} group=${group} query=${query} live=${live} now=${now} records=${records} events=${events} stops=${stops} names=${names} colours=${colours} at=${at} go=${go} />`}`;
}

function Shown({ query, live, now, records, events, stops, names, colours, at, go }) {
  const newest = events[events.length - 1] ?? null;
  const event = at === null ? newest : eventAt(events, at);
  const picture = useMemo(() => (at === null ? livePicture(now, records, newest) : pastPicture(records, event, at)), [now, records, at]);
  const queues = now.parts.filter((part) => !part.retry).reduce((sum, part) => sum + part.queues.length, 0);
  const cells = picture ? picture.members.length * picture.parts.reduce((sum, part) => sum + part.rows.length, 0) : 0;
  const isLarge = cells > MOST_CELLS || (picture?.members.length ?? 0) > MOST_COLUMNS;
  const compact = isLarge || query.form === "compact";
  const most = Math.max(0, ...now.parts.flatMap((part) => part.lags.map((lag) => lag ?? 0)));
  const chosen = query.member && Object.keys(names).find((id) => names[id] === query.member);
  const shared = {
    picture, names, colours, most, broadcast: now.broadcast, showRetries: query.retries === "1",
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
    <${Hazards} sentences=${now.hazards.map((each) => said(each, names))} />
    <section class=${`card ownership ${at === null ? "" : "past"}`}>
      <div class="row head">
        <h2>${at === null ? t("groups.gridNow") : t("groups.gridThen", { time: time(at, { ms: true }) })}</h2>
        ${at !== null && html`<button class="main" onClick=${() => go(null)}>${t("groups.backToLive")}</button>`}
        ${!isLarge && picture && html`<button class="plain form" aria-pressed=${compact} onClick=${() => goQuery({ form: compact ? null : "compact" })}>${t("groups.compact")}</button>`}
      </div>
      ${event && html`<p class=${`reason ${at !== null || now.at_ms - event.end < 6000 ? "fresh" : ""}`} role="status">
        ${at === null && html`<span class="quiet">${t("groups.lastChange", { ago: ago(event.start) })}:</span> `}<strong>${whyOf(event, names, at)}</strong> <span class="quiet">${sizeOf(event)}</span></p>`}
      ${!picture && html`<${Empty}>${t("groups.nothingThen")}<//>`}
      ${picture && !picture.parts.length && html`<${Empty}>${t(at === null ? "groups.noQueues" : "groups.nobodyTold")}<//>`}
      ${picture && picture.parts.length > 0 && (compact
        ? html`<${Compact} ...${shared} chosen=${chosen} onChoose=${(id) => goQuery({ member: id && names[id] })} />`
        : html`<${Grid} ...${shared} />`)}
      ${at !== null && picture && html`<p class="quiet small">${t("groups.noLagThen")}</p>`}
    </section>
    <section class="card history" aria-label=${t("groups.history")}>
      <h2>${t("groups.history")}</h2>
      <${Timeline} events=${events} stops=${stops} at=${at} now=${now.at_ms} names=${names} event=${event} onGo=${go} />
    </section>
    <section class="card">
      <h2>${t("groups.moves")}</h2>
      <${Moves} events=${events} names=${names} at=${at} event=${event} onGo=${go} />
      <${Command} line=${commands.moves} />
    </section>
    <${Notes} sentences=${now.notes.map((each) => said(each, names))} />
    <${Command} line=${commands.explain} />
    <${Command} line=${commands.show} />`;
}
