// The overview: rates, warnings, lag and brokers.
import { path, useLive } from "../app/api.js";
import { duration, NONE, rate, share, short, time, whole } from "../app/format.js";
import { html, useMemo, useRef } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Bar } from "../components/bar.js";
import { versionText } from "../components/broker_health.js";
import { Chart } from "../components/chart.js";
import { Command } from "../components/command.js";
import { Fact, Facts, Liveness, Loading, Notes } from "../components/status.js";
import { Table } from "../components/table.js";

const MOST_POINTS = 600;

// The points of the last minutes: all of them with the first event, then one by one.
/** @returns {[{ current: any }, (value: any) => void]} */
function usePoints() {
  const points = useRef([]);
  const take = (value) => {
    points.current = value.is_full ? value.points : [...points.current, ...value.points].slice(-MOST_POINTS);
  };
  return [points, take];
}

export function Overview() {
  title(t("overview.title"));
  const [points, take] = usePoints();
  const live = useLive("/api/overview/live", take);
  const seen = live.value;
  return html`
    <div class="page-head">
      <h1>${t("overview.title")}</h1>
      ${seen && html`<p><span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${age(seen)}</span></p>`}
    </div>
    <${Liveness} live=${live} />
    ${seen ? html`<${Body} seen=${seen} points=${points.current} />` : !live.failure && html`<${Loading} />`}`;
}

// The age of the data: groups are polled in turn, so the oldest row counts.
function age(seen) {
  if (seen.groups_seen < seen.groups) return t("overview.looking", { seen: seen.groups_seen, all: seen.groups });
  const old = seen.groups_seen_ms === null ? 0 : Math.max(0, seen.at_ms - seen.groups_seen_ms);
  return t("overview.asOf", { time: time(seen.at_ms), old: duration(Math.max(1000, old)) });
}

function Body({ seen, points }) {
  const up = seen.brokers.filter((each) => each.problem === null).length;
  return html`
    <${Facts}>
      <${Fact} name=${t("overview.in")} value=${rate(seen.in_rate)} />
      <${Fact} name=${t("overview.out")} value=${rate(seen.out_rate)} />
      <${Fact} name=${t("overview.lag")} value=${short(seen.lag)} hint=${whole(seen.lag)} />
      <${Fact} name=${t("overview.topics")} value=${html`<a href="/topics">${whole(seen.topics)}</a>`} />
      <${Fact} name=${t("overview.groups")} value=${html`<a href="/groups">${whole(seen.groups)}</a>`} />
      <${Fact} name=${t("overview.members")} value=${whole(seen.members)} />
      <${Fact} name=${t("overview.brokersUp")} tone=${up < seen.brokers.length ? "bad" : ""}
        value=${html`<a href="/brokers">${t("overview.upOf", { up, all: seen.brokers.length })}</a>`} />
    <//>
    ${seen.first_steps.length > 0 && html`
      <section class="card"><h2>${t("overview.empty")}</h2>
        ${seen.first_steps.map((line, place) => html`<${Command} key=${line} line=${line} label=${t(place ? "overview.readFirst" : "overview.sendFirst")} />`)}
      </section>`}
    <${WarningList} seen=${seen} />
    <div class="columns">
      <${Rates} points=${points} seen=${seen} />
      <${Lag} points=${points} seen=${seen} />
    </div>
    <div class="columns">
      <${Behind} rows=${seen.lagging_groups} />
      <${Busiest} rows=${seen.busiest_topics} />
    </div>
    <${Brokers} rows=${seen.brokers} />
    <${Notes} sentences=${seen.notes} />
    <${Command} line=${seen.command} />`;
}

const WHERE = {
  broker: (name) => path`/brokers/${name}`,
  topic: (name) => path`/topics/${name}`,
  group: (name) => path`/groups/${name}`,
  "dead letters": (name) => path`/groups/${name}/dead-letters`,
};

function WarningList({ seen }) {
  const heading = t("overview.warnings");
  const unseen = seen.groups_seen < seen.groups;
  return html`
    <section class=${`card warning-list ${seen.warnings.length ? "" : "none"}`} aria-label=${heading}>
      <h2>${heading} ${seen.warnings.length ? html`<span class="badge warn">${whole(seen.warnings.length + seen.more_warnings)}</span>` : ""}</h2>
      ${seen.warnings.length ? html`
        <ul>${seen.warnings.map((each) => html`
          <li key=${`${each.subject} ${each.name} ${each.sentence}`}>
            <span class=${`badge ${each.is_severe ? "bad" : "warn"}`}>${each.is_severe ? t("overview.bad") : t("overview.look")}</span>
            <span class="sentence">${each.sentence}</span>
            <a href=${WHERE[each.subject](each.name)} aria-label=${t("overview.seeNamed", { name: each.name })}>${t("overview.see")}</a>
          </li>`)}</ul>
        ${seen.more_warnings > 0 && html`<p class="quiet">${t("overview.more", { n: seen.more_warnings })} <a href="/groups">${t("overview.allGroups")}</a></p>`}`
      : html`<p class=${unseen ? "quiet" : "good"}>${unseen ? t("overview.soFar") : t("overview.well")}</p>`}
    </section>`;
}

const times = (points) => points.map((each) => each[0] / 1000);
const column = (points, place) => points.map((each) => each[place]);

function Rates({ points, seen }) {
  const drawn = useMemo(() => [times(points), [
    { label: t("overview.in"), colour: "--series-1", values: column(points, 1) },
    { label: t("overview.out"), colour: "--series-2", values: column(points, 2) },
  ]], [points]);
  return html`
    <section class="card" aria-label=${t("overview.rates")}>
      <h2>${t("overview.rates")}</h2>
      <${Chart} times=${drawn[0]} series=${drawn[1]} format=${rate} says=${t("overview.ratesSay", { in: rate(seen.in_rate), out: rate(seen.out_rate) })} />
    </section>`;
}

function Lag({ points, seen }) {
  const drawn = useMemo(() => [times(points), [{ label: t("overview.lag"), colour: "--series-4", values: column(points, 3) }]], [points]);
  return html`
    <section class="card" aria-label=${t("overview.lag")}>
      <h2>${t("overview.lag")}</h2>
      <${Chart} times=${drawn[0]} series=${drawn[1]} height=${187} format=${short} says=${t("overview.lagSays", { lag: whole(seen.lag) })} />
    </section>`;
}

function Behind({ rows }) {
  const most = Math.max(1, ...rows.map((each) => each.lag));
  const columns = [
    { key: "name", name: t("overview.group"), cell: (row) => html`<a href=${path`/groups/${row.name}`}>${row.name}</a>` },
    { key: "lag", name: t("overview.lag"), number: true, cell: (row) => html`<${Bar} value=${row.lag / most} label=${whole(row.lag)} />` },
    { key: "rate", name: t("overview.done"), number: true, cell: (row) => rate(row.out_rate) },
    { key: "members", name: t("overview.membersShort"), number: true, cell: (row) => (row.members === 0 ? html`<span class="badge warn">${t("overview.nobody")}</span>` : whole(row.members)) },
  ];
  return html`
    <section class="card"><h2>${t("overview.behind")}</h2>
      <${Table} caption=${t("overview.behind")} columns=${columns} rows=${rows} rowKey=${(row) => row.name} empty=${t("overview.nobodyBehind")} />
    </section>`;
}

function Busiest({ rows }) {
  const most = Math.max(1e-9, ...rows.map((each) => each.in_rate));
  const columns = [
    { key: "name", name: t("overview.topic"), cell: (row) => html`<a href=${path`/topics/${row.name}`}>${row.name}</a>` },
    { key: "rate", name: t("overview.in"), number: true, cell: (row) => html`<${Bar} value=${row.in_rate / most} label=${rate(row.in_rate)} />` },
    { key: "groups", name: t("overview.groups"), number: true, cell: (row) => whole(row.groups) },
  ];
  return html`
    <section class="card"><h2>${t("overview.busiest")}</h2>
      <${Table} caption=${t("overview.busiest")} columns=${columns} rows=${rows} rowKey=${(row) => row.name} empty=${t("overview.quiet")} />
    </section>`;
}

const diskTone = (used) => (used >= 0.9 ? "bad" : used >= 0.75 ? "warn" : "");

function Brokers({ rows }) {
  const columns = [
    { key: "name", name: t("overview.broker"), cell: (row) => html`<a href=${path`/brokers/${row.name}`}>${row.name}</a>${row.id ? html` <span class="badge">${t("overview.replica", { id: row.id })}</span>` : ""}` },
    { key: "up", name: t("overview.up"), cell: (row) => (row.problem === null ? html`<span class="badge good">${t("overview.isUp", { time: duration(row.up_ms) })}</span>` : html`<span class="badge bad" title=${row.problem}>${t("overview.silent")}</span>`) },
    { key: "version", name: t("overview.version"), cell: (row) => versionText(row.product, row.version) ?? NONE },
    { key: "address", name: t("overview.address"), cell: (row) => html`<span class="mono">${row.address}</span>` },
    { key: "in", name: t("overview.in"), number: true, cell: (row) => rate(row.in_rate) },
    { key: "out", name: t("overview.out"), number: true, cell: (row) => rate(row.out_rate) },
    { key: "disk", name: t("overview.disk"), number: true, cell: (row) => html`<${Bar} value=${row.disk_used} label=${share(row.disk_used)} tone=${diskTone(row.disk_used)} />` },
  ];
  return html`
    <section class="card"><h2>${t("overview.brokers")}</h2>
      <${Table} caption=${t("overview.brokers")} columns=${columns} rows=${rows} rowKey=${(row) => `${row.name} ${row.id}`} />
    </section>`;
}
