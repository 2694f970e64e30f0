// One message: everything that is known of it, and redelivery.
import { useGet } from "../../app/api.js";
import { bytes, duration, time, whole } from "../../app/format.js";
import { html } from "../../app/html.js";
import { goQuery } from "../../app/router.js";
import { title } from "../../app/shell.js";
import { t } from "../../app/i18n.js";
import { Body, Plain } from "../../components/body.js";
import { Command } from "../../components/command.js";
import { Loading, Notes, Problem } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { Redelivery } from "./redelivery.js";
import { apiOf, linkTo } from "./fields.js";

export function MessageAt({ topic, broker, queue, offset, query, about }) {
  const place = { topic, broker, queue, offset };
  const { value, error, again } = useGet(apiOf(place));
  title(`${topic} ${broker}:${queue}:${offset}`);
  return html`
    <p class="crumb"><a href="/messages">${t("app.messages")}</a> / <a href=${`/messages?topic=${encodeURIComponent(topic)}`}><${Plain} text=${topic} /></a></p>
    <div class="page-head"><h1 class="mono">${broker}:${queue}:${offset}</h1>${value && html`<${Neighbours} place=${place} found=${value} />`}</div>
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`<${All} key=${linkTo(place)} place=${place} found=${value} query=${query} about=${about} />`}`;
}

function Neighbours({ place, found }) {
  const at = Number(place.offset);
  const before = found.min_offset === null || at > found.min_offset, after = found.max_offset === null || at + 1 < found.max_offset;
  return html`
    <nav class="row" aria-label=${t("messages.neighbours")}>
      ${before && at > 0 && html`<a class="button" href=${linkTo({ ...place, offset: at - 1 })}>← ${whole(at - 1)}</a>`}
      ${found.max_offset !== null && html`<span class="quiet">${t("messages.range", { first: whole(found.min_offset), end: whole(found.max_offset) })}</span>`}
      ${after && html`<a class="button" href=${linkTo({ ...place, offset: at + 1 })}>${whole(at + 1)} →</a>`}
    </nav>`;
}

function All({ place, found, query, about }) {
  const { row, delivery } = found;
  const facts = [
    [t("messages.stored"), html`${time(row.stored_ms, { ms: true })} <span class="quiet">${found.store_host}</span>`],
    [t("messages.born"), html`${time(found.born_ms, { ms: true })} <span class="quiet">${found.born_host}</span>`],
    [t("messages.tag"), row.tag === null ? "–" : html`<span class="badge"><${Plain} text=${row.tag} /></span>`],
    [t("messages.keys"), row.keys.length ? row.keys.map((key) => html`<a key=${key} class="key" href=${`/messages?${new URLSearchParams({ topic: row.topic, by: "key", key })}`}><${Plain} text=${key} /></a> `) : "–"],
    [t("messages.id"), html`<span class="mono"><${Plain} text=${row.id} /></span>`],
    [t("messages.placeId"), html`<span class="mono">${found.offset_id}</span>`],
    [t("messages.sizes"), t("messages.sizesOf", { body: bytes(row.size), all: bytes(found.stored_size) })],
    [t("messages.position"), whole(found.position)],
    [t("messages.flags"), `${found.flag} / ${found.sys_flag}`],
  ];
  const history = sentences(delivery);
  const readers = useGet(`${apiOf(place)}/readers`);
  return html`
    <div class="columns message-columns">
      <div>
        <section class="card">
          <h2>${t("messages.itself")}</h2>
          <dl class="lines">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
          ${history.length > 0 && html`<ul class="delivery">${history.map((each) => html`<li key=${each}><${Plain} text=${each} /></li>`)}</ul>`}
          <${Command} line=${found.command} />
        </section>
        <${Readers} found=${readers} offset=${row.offset} />
        <${Trace} place=${place} />
      </div>
      <div>
        <section class="card first">
          <h2>${t("messages.body")}</h2>
          <${Body} body=${found.body} download=${`${apiOf(place)}/body`} view=${query.view} onView=${(view) => goQuery({ view })} />
        </section>
        <section class="card">
          <h2>${t("messages.properties")}</h2>
          <${Properties} listed=${found.properties} />
        </section>
        <${Redelivery} place=${place} about=${about} groups=${(readers.value?.readers || []).map((each) => each.group)} />
      </div>
    </div>`;
}

function Properties({ listed }) {
  const columns = [
    { key: "name", name: t("messages.name"), value: (each) => each.name, cell: (each) => html`<span class="mono"><${Plain} text=${each.name} /></span>` },
    { key: "value", name: t("messages.value"), value: (each) => each.value, cell: (each) => html`<span class="mono value"><${Plain} text=${each.value} /></span>` },
    { key: "whose", name: t("messages.whose"), value: (each) => (each.is_own ? t("messages.own") : t("messages.protocol")), cell: (each) => html`<span class="quiet nowrap">${each.is_own ? t("messages.own") : t("messages.protocol")}</span>` },
  ];
  return html`<${Table} caption=${t("messages.properties")} columns=${columns} rows=${listed} rowKey=${(each) => each.name} />`;
}

// The delivery of a message by its own fields, in sentences.
function sentences(delivery) {
  const found = [];
  const add = (key, values) => found.push(t(`messages.delivery.${key}`, values));
  if (delivery.came_back) add("cameBack", { n: delivery.came_back });
  if (delivery.sent_to) add("sentTo", { topic: delivery.sent_to });
  if (delivery.dead_of) add("deadOf", { topic: delivery.dead_of });
  if (delivery.origin_id) add("origin", { id: delivery.origin_id });
  if (delivery.delay_ms) add("delay", { time: duration(delivery.delay_ms), level: delivery.delay_level ?? "–" });
  if (delivery.deliver_ms) add("deliver", { time: time(delivery.deliver_ms, { ms: true }) });
  if (delivery.transaction) add(`transaction.${delivery.transaction.replace(" ", "")}`, { group: delivery.producer_group ?? "–" });
  if (delivery.checks) add("checks", { n: delivery.checks });
  if (delivery.correlation_id) add("request", { id: delivery.correlation_id });
  if (delivery.sharding_key) add("sharding", { key: delivery.sharding_key });
  if (delivery.is_compressed) add("compressed");
  if (delivery.unreadable) add("unreadable", { why: delivery.unreadable });
  return found;
}

function Readers({ found: { value, error, again }, offset }) {
  const columns = [
    { key: "group", name: t("messages.group"), value: (each) => each.group, cell: (each) => html`<a href=${`/groups/${encodeURIComponent(each.group)}`}><${Plain} text=${each.group} /></a>` },
    { key: "past", name: t("messages.past"), value: (each) => (each.is_past ? t("messages.isPast") : t("messages.notPast")), cell: (each) => html`<span class=${`badge ${each.is_past ? "good" : "warn"}`}>${each.is_past ? t("messages.isPast") : t("messages.notPast")}</span>` },
    { key: "committed", name: t("messages.committed"), number: true, value: (each) => each.committed, cell: (each) => whole(each.committed) },
    { key: "distance", name: t("messages.distance"), number: true, value: (each) => (each.committed === null ? null : each.committed - offset), cell: (each) => (each.committed === null ? "–" : whole(each.committed - offset)) },
  ];
  return html`
    <section class="card">
      <h2>${t("messages.readers")}</h2>
      ${error && html`<${Problem} error=${error} again=${again} />`}
      ${!value && !error && html`<${Loading} />`}
      ${value && html`
        <${Table} caption=${t("messages.readers")} columns=${columns} rows=${value.readers} rowKey=${(each) => each.group} empty=${t("messages.noReaders")} />
        <${Command} line=${value.command} />`}
    </section>`;
}

function Trace({ place }) {
  const { value, error, again } = useGet(`${apiOf(place)}/trace`);
  const columns = [
    { key: "what", name: t("messages.what"), value: (each) => each.what, cell: (each) => html`<span class="nowrap">${t(`messages.trace.${each.what.replaceAll(" ", "")}`)}</span>` },
    { key: "at", name: t("messages.at"), value: (each) => each.at_ms, cell: (each) => html`<span class="nowrap">${time(each.at_ms, { ms: true })}</span>` },
    { key: "group", name: t("messages.group"), value: (each) => each.group, cell: (each) => html`<${Plain} text=${each.group} />` },
    { key: "client", name: t("messages.client"), value: (each) => each.client_host, cell: (each) => html`<${Plain} text=${each.client_host} />` },
    { key: "took", name: t("messages.took"), number: true, value: (each) => each.took_ms, cell: (each) => duration(each.took_ms) },
    { key: "outcome", name: t("messages.outcome"), value: (each) => each.outcome, cell: (each) => html`<${Plain} text=${each.outcome ?? (each.went_well === null ? "" : t(each.went_well ? "messages.well" : "messages.failed"))} />` },
  ];
  return html`
    <section class="card">
      <h2>${t("messages.trace")}</h2>
      ${error && html`<${Problem} error=${error} again=${again} />`}
      ${!value && !error && html`<${Loading} />`}
      ${value && html`
        ${value.traces.length > 0 && html`<${Table} caption=${t("messages.trace")} columns=${columns} rows=${value.traces} rowKey=${(each) => `${each.what}${each.at_ms}${each.request_id}${each.group}`} />`}
        <${Notes} sentences=${value.notes} />
        <${Command} line=${value.command} />`}
    </section>`;
}
