// The committed offsets of a group, live, and resetting them with a preview.
import { path, useLive } from "../app/api.js";
import { time, whole } from "../app/format.js";
import { html } from "../app/html.js";
import { title } from "../app/shell.js";
import { t } from "../app/i18n.js";
import { lagClass } from "../components/bar.js";
import { Empty, Fact, Facts, Liveness, Loading, Notes } from "../components/status.js";
import { Table } from "../components/table.js";
import { GroupTabs } from "../components/group_tabs.js";
import { Reset } from "./offsets/reset.js";

export function Offsets({ group, query, about }) {
  title(t("offsets.title", { group }));
  const live = useLive(path`/api/groups/${group}/offsets/live`);
  const seen = live.value;
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/groups">${t("app.groups")}</a> / <a href=${path`/groups/${group}`}>${group}</a></p>
      <h1>${t("offsets.title", { group })}</h1></div>
      <span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${t("app.live")}</span>
    </div>
    <${GroupTabs} group=${group} here="offsets" />
    <${Liveness} live=${live} />
    ${!seen && !live.failure && html`<${Loading} />`}
    ${seen && html`
      <${Facts}>
        <${Fact} name=${t("offsets.lag")} value=${whole(seen.lag)} />
        <${Fact} name=${t("offsets.queues")} value=${whole(seen.queues)} />
        <${Fact} name=${t("offsets.members")} value=${seen.members.length ? whole(seen.members.length) : t("offsets.nobody")} hint=${seen.members.join(", ")} />
        <${Fact} name=${t("offsets.topics")} value=${seen.topics.join(", ") || "–"} tone="small" />
      <//>
      <${Reset} group=${group} seen=${seen} query=${query} about=${about} />
      <${Rows} seen=${seen} />
      <${Notes} sentences=${seen.notes} />`}`;
}

function Rows({ seen }) {
  return html`
    <section class="card wide-names">
      <h2>${t("offsets.committedOffsets")}</h2>
      ${seen.rows.length === 0 ? html`<${Empty}>${t("offsets.none")}<//>` : html`
        <${Table} caption=${t("offsets.committedOffsets")} rows=${seen.rows} rowKey=${(row) => `${row.topic} ${row.broker} ${row.queue_id}`} search=${seen.rows.length > 12} columns=${[
          { key: "topic", name: t("offsets.topic"), value: (row) => row.topic, cell: (row) => html`<a href=${path`/topics/${row.topic}`}>${row.topic}</a>` },
          { key: "broker", name: t("offsets.broker"), value: (row) => row.broker },
          { key: "queue", name: t("offsets.queue"), number: true, value: (row) => row.queue_id },
          { key: "committed", name: t("offsets.committed"), number: true, value: (row) => row.committed, cell: (row) => whole(row.committed) },
          { key: "end", name: t("offsets.end"), number: true, value: (row) => row.end, cell: (row) => whole(row.end) },
          { key: "lag", name: t("offsets.lag"), number: true, value: (row) => row.lag, cell: (row) => html`<span class=${`heated ${lagClass(row.lag)}`}>${whole(row.lag)}</span>` },
          { key: "consumed", name: t("offsets.handledTo"), value: (row) => row.consumed_at, cell: (row) => time(row.consumed_at) },
        ]} />`}
      ${seen.omitted > 0 && html`<p class="quiet">${t("offsets.omitted", { n: seen.omitted })}</p>`}
    </section>`;
}
