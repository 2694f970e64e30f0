// All groups: topics, lag, strategy and warnings.
import { path, useLive } from "../app/api.js";
import { rate, whole } from "../app/format.js";
import { html, useMemo } from "../app/html.js";
import { title } from "../app/shell.js";
import { language, t } from "../app/i18n.js";
import { Command } from "../components/command.js";
import { lagClass } from "../components/bar.js";
import { Liveness, Loading } from "../components/status.js";
import { Table } from "../components/table.js";

const TOPICS = 3;

export function Groups() {
  title(t("app.groups"));
  const live = useLive("/api/live/groups");
  const rows = live.value?.groups;
  const unseen = (rows ?? []).filter((row) => row.at_ms === null).length;
  const columns = useMemo(() => [
    { key: "name", name: t("groups.group"), value: (row) => row.name, cell: (row) => html`<a href=${path`/groups/${row.name}`}>${row.name}</a>` },
    { key: "members", name: t("groups.members"), number: true, value: (row) => row.members, cell: (row) => (row.members === 0 ? html`<span class="quiet">0</span>` : whole(row.members)) },
    { key: "queues", wide: true, name: t("groups.queues"), number: true, value: (row) => row.queues, cell: (row) => whole(row.queues) },
    { key: "topics", wide: true, name: t("app.topics"), value: (row) => row.topics.join(" "), cell: (row) => html`<${Topics} names=${row.topics} />` },
    { key: "lag", name: t("groups.lag"), number: true, value: (row) => row.lag, cell: (row) => html`<span class=${`heat-cell ${lagClass(row.lag)}`}>${whole(row.lag)}</span>` },
    { key: "rate", wide: true, name: t("groups.rate"), number: true, value: (row) => row.out_rate, cell: (row) => rate(row.out_rate) },
    { key: "strategy", wide: true, name: t("groups.strategy"), value: (row) => (row.broadcast ? t("groups.broadcast") : row.strategy ?? ""), cell: (row) => html`${row.broadcast ? t("groups.broadcast") : row.strategy ?? "–"}${row.kind && html` <span class="quiet">${row.kind}</span>`}` },
    { key: "warnings", name: t("app.warnings"), number: true, value: (row) => row.warnings.length, cell: (row) => (row.warnings.length ? html`<span class="badge warn" title=${row.warnings.join("\n")}>${t("groups.nWarnings", { n: row.warnings.length })}</span>` : html`<span class="quiet">${row.at_ms === null ? "–" : 0}</span>`) },
  ], [language()]);
  return html`
    <div class="page-head"><div><h1>${t("app.groups")}</h1><p>${unseen ? t("groups.unseen", { n: unseen }) : t("groups.intro")}</p></div></div>
    <${Liveness} live=${live} />
    ${!rows && !live.failure && html`<${Loading} />`}
    ${rows && html`
      <section class="card"><${Table} caption=${t("app.groups")} columns=${columns} rows=${rows} rowKey=${(row) => row.name} search sortBy="name" empty=${t("groups.none")} /></section>
      <${Command} line=${live.value.command} />`}`;
}

function Topics({ names }) {
  const more = names.length - TOPICS;
  return html`${names.slice(0, TOPICS).map((name, place) => html`${place ? ", " : ""}<a key=${name} href=${path`/topics/${name}`}>${name}</a>`)}${more > 0 ? html` <span class="quiet" title=${names.join(", ")}>${t("groups.andMore", { n: more })}</span>` : ""}`;
}
