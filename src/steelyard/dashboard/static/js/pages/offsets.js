// How far a group is in each queue, live, and moving it: what that does is shown before it is done.
import { path, useLive } from "../frame/api.js";
import { time, whole } from "../frame/format.js";
import { html } from "../frame/html.js";
import { title } from "../frame/shell.js";
import { t } from "../frame/words.js";
import { heatClass } from "../parts/heat.js";
import { Empty, Fact, Facts, Liveness, Loading, Notes } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { GroupTabs } from "../parts/tabs.js";
import { Reset } from "./offsets/reset.js";

export function Offsets({ group, query, about }) {
  title(t("offsets.title", { group }));
  const live = useLive(path`/api/groups/${group}/offsets/live`);
  const seen = live.value;
  return html`
    <div class="page-head"><div>
      <p class="crumb"><a href="/groups">${t("frame.groups")}</a> / <a href=${path`/groups/${group}`}>${group}</a></p>
      <h1>${t("offsets.title", { group })}</h1></div>
      <span class=${`pulse ${live.state === "live" ? "live" : ""}`}>${t("frame.live")}</span>
    </div>
    <${GroupTabs} group=${group} here="offsets" />
    <${Liveness} live=${live} />
    ${!seen && !live.trouble && html`<${Loading} />`}
    ${seen && html`
      <${Facts}>
        <${Fact} name=${t("offsets.lag")} value=${whole(seen.lag)} />
        <${Fact} name=${t("offsets.queues")} value=${whole(seen.rows.length + seen.left_out)} />
        <${Fact} name=${t("offsets.members")} value=${seen.members.length ? whole(seen.members.length) : t("offsets.nobody")} hint=${seen.members.join(", ")} />
        <${Fact} name=${t("offsets.topics")} value=${seen.topics.join(", ") || "–"} tone="small" />
      <//>
      <${Reset} group=${group} seen=${seen} query=${query} about=${about} />
      <${Rows} seen=${seen} />
      <${Notes} sentences=${seen.notes} />`}`;
}

function Rows({ seen }) {
  const most = Math.max(0, ...seen.rows.map((row) => row.lag));
  return html`
    <section class="card wide-names">
      <h2>${t("offsets.where")}</h2>
      ${seen.rows.length === 0 ? html`<${Empty}>${t("offsets.none")}<//>` : html`
        <${Table} caption=${t("offsets.where")} rows=${seen.rows} rowKey=${(row) => `${row.topic} ${row.broker} ${row.queue_id}`} search=${seen.rows.length > 12} columns=${[
          { key: "topic", name: t("offsets.topic"), value: (row) => row.topic, cell: (row) => html`<a href=${path`/topics/${row.topic}`}>${row.topic}</a>` },
          { key: "broker", name: t("offsets.broker"), value: (row) => row.broker },
          { key: "queue", name: t("offsets.queue"), number: true, value: (row) => row.queue_id },
          { key: "committed", name: t("offsets.committed"), number: true, value: (row) => row.committed, cell: (row) => whole(row.committed) },
          { key: "end", name: t("offsets.end"), number: true, value: (row) => row.end, cell: (row) => whole(row.end) },
          { key: "lag", name: t("offsets.lag"), number: true, value: (row) => row.lag, cell: (row) => html`<span class=${`heated ${heatClass(row.lag, most)}`}>${whole(row.lag)}</span>` },
          { key: "consumed", name: t("offsets.handledTo"), value: (row) => row.consumed_at, cell: (row) => time(row.consumed_at) },
        ]} />`}
      ${seen.left_out > 0 && html`<p class="quiet">${t("offsets.leftOut", { n: seen.left_out })}</p>`}
    </section>`;
}
