// Dead letters: all groups at a glance, or those of one group, to be inspected and resent.
import { path, useGet } from "../app/api.js";
import { ago, time, whole } from "../app/format.js";
import { html, useEffect, useState } from "../app/html.js";
import { goQuery } from "../app/router.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { Plain } from "../components/body.js";
import { Command } from "../components/command.js";
import { Empty, Fact, Facts, Loading, Problem } from "../components/status.js";
import { Table } from "../components/table.js";
import { GroupTabs } from "../components/group_tabs.js";
import { Resend } from "./dead_letters/resend.js";
import { Letter } from "./dead_letters/letter.js";

const AGAIN_MS = 5000, BODIES_AGAIN_MS = 15000, MORE = [100, 500], MOST_CHOSEN = 200;

export function DeadLetters({ group, query, about }) {
  return group === undefined ? html`<${OfAll} />` : html`<${OfGroup} key=${group} group=${group} query=${query} about=${about} />`;
}

// Poll while the page is visible and nothing is selected.
function useAgain(got, every = AGAIN_MS, rests = false) {
  useEffect(() => {
    if (rests) return undefined;
    const timer = setInterval(() => { if (!document.hidden) got.again(); }, every);
    return () => clearInterval(timer);
  }, [rests]);
  return got;
}

function OfAll() {
  title(t("dead.title"));
  const { value, error, again } = useAgain(useGet("/api/dead-letters"));
  return html`
    <div class="page-head"><div><h1>${t("dead.title")}</h1><p>${t("dead.lead")}</p></div></div>
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`
      <${Facts}>
        <${Fact} name=${t("dead.messages")} value=${whole(value.messages)} tone=${value.messages ? "warn" : ""} />
        <${Fact} name=${t("dead.groups")} value=${whole(value.groups.length)} />
      <//>
      <section class="card">
        ${value.groups.length === 0 ? html`<${Empty}>${t("dead.noGroup")}<//>` : html`
          <${Table} caption=${t("dead.groups")} rows=${value.groups} rowKey=${(row) => row.group} search=${value.groups.length > 8} sortBy="messages" descending columns=${[
            { key: "group", name: t("dead.group"), value: (row) => row.group, cell: (row) => html`<a href=${path`/groups/${row.group}/dead-letters`}>${row.group}</a>` },
            { key: "messages", name: t("dead.messages"), number: true, value: (row) => row.messages, cell: (row) => whole(row.messages) },
            { key: "last", name: t("dead.last"), value: (row) => row.last_at, cell: (row) => html`${time(row.last_at)} <span class="quiet">${row.last_at && ago(row.last_at)}</span>` },
          ]} />`}
      </section>
      <${Command} line=${value.command} />`}`;
}

function OfGroup({ group, query, about }) {
  title(t("dead.titleOf", { group }));
  const most = MORE.includes(Number(query.most)) ? Number(query.most) : MORE[0];
  const [chosen, setChosen] = useState([]);
  const [sending, setSending] = useState(null);
  const { value, error, again } = useAgain(useGet(path`/api/groups/${group}/dead-letters` + (most === MORE[0] ? "" : `?most=${most}`)), BODIES_AGAIN_MS, chosen.length > 0);
  const rows = value?.rows ?? [];
  const known = chosen.filter((id) => rows.some((row) => row.id === id));
  const toggle = (id) => setChosen(known.includes(id) ? known.filter((each) => each !== id) : [...known, id].slice(0, MOST_CHOSEN));
  const allChosen = rows.length > 0 && known.length === Math.min(rows.length, MOST_CHOSEN);
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/dead-letters">${t("app.deadLetters")}</a> / <a href=${path`/groups/${group}`}>${group}</a></p>
      <h1>${t("dead.titleOf", { group })}</h1></div></div>
    <${GroupTabs} group=${group} here="deadLetters" />
    ${error && html`<${Problem} error=${error} again=${again} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`
      <${Facts}>
        <${Fact} name=${t("dead.messages")} value=${whole(value.total)} tone=${value.total ? "warn" : ""} />
        <${Fact} name=${t("dead.retries")} value=${value.max_retries === null ? "–" : whole(value.max_retries)} />
      <//>
      <section class="card">
        <div class="row dead-actions">
          <button disabled=${!known.length} onClick=${() => setSending({ ids: known })}>${t("dead.resendChosen", { n: known.length })}</button>
          <button disabled=${!rows.length} onClick=${() => setSending({ all: true })}>${t("dead.resendAll")}</button>
          ${rows.length < value.total && html`<span class="quiet">${t("dead.newest", { shown: rows.length, all: whole(value.total) })}
            ${most < MORE[1] && html` <button class="plain" onClick=${() => goQuery({ most: MORE[1] })}>${t("dead.more", { n: MORE[1] })}</button>`}</span>`}
        </div>
        ${rows.length === 0 ? html`<${Empty}>${t("dead.none", { group })}<//>` : html`
          <${Table} caption=${t("dead.titleOf", { group })} rows=${rows} rowKey=${(row) => row.id} search first=${MORE[1]} columns=${[
            { key: "chosen", sortable: false, name: html`<input type="checkbox" aria-label=${t("dead.chooseAll")} checked=${allChosen} onChange=${() => setChosen(allChosen ? [] : rows.slice(0, MOST_CHOSEN).map((row) => row.id))} />`, cell: (row) => html`<input type="checkbox" aria-label=${t("dead.choose", { id: row.message.id })} checked=${known.includes(row.id)} onChange=${() => toggle(row.id)} />` },
            { key: "id", name: t("dead.id"), value: (row) => row.message.id, cell: (row) => html`<button class="link mono" onClick=${() => goQuery({ id: row.id }, { replace: false })}>${row.message.id}</button>` },
            { key: "to", name: t("dead.sentTo"), value: (row) => row.topic, cell: (row) => (row.topic ? html`<a href=${path`/topics/${row.topic}`}>${row.topic}</a>` : "–") },
            { key: "attempts", name: t("dead.attempts"), number: true, value: (row) => row.attempts },
            { key: "at", name: t("dead.givenUp"), value: (row) => row.message.stored_ms, cell: (row) => time(row.message.stored_ms) },
            { key: "error", name: t("dead.error"), value: (row) => row.error, cell: (row) => row.error && html`<span class="beginning"><${Plain} text=${row.error} /></span>` },
            { key: "keys", name: t("dead.keys"), value: (row) => row.message.keys.join(" "), cell: (row) => html`<${Plain} text=${row.message.keys.join(" ")} />` },
            { key: "tag", name: t("dead.tag"), value: (row) => row.message.tag, cell: (row) => row.message.tag && html`<${Plain} text=${row.message.tag} />` },
            { key: "body", name: t("dead.body"), value: (row) => row.message.preview, cell: (row) => html`<span class="beginning mono"><${Plain} text=${row.message.preview} />${row.message.is_truncated ? " …" : ""}</span>` },
          ]} />`}
      </section>
      <${Command} line=${value.command} />`}
    ${query.id && !sending && html`<${Letter} key=${query.id} group=${group} id=${query.id} retries=${value?.max_retries} onClose=${() => goQuery({ id: null })} onResend=${() => setSending({ ids: [query.id] })} />`}
    ${sending && html`<${Resend} group=${group} wish=${sending} about=${about} onClose=${(sent) => { setSending(null); if (sent === true) { setChosen([]); again(); } }} />`}`;
}
