// The last hours of a topic or a group, as the server sampled them: charts that begin again from there after a reload.
import { useGet } from "../app/api.js";
import { rate, short, time } from "../app/format.js";
import { html, useEffect, useMemo } from "../app/html.js";
import { t } from "../app/i18n.js";
import { Chart } from "./chart.js";
import { Problem } from "./status.js";

const EVERY_MS = 60000;
const RATE = 1, LAG = 2;

// `url` returns { points: [[at_ms, rate, lag]], kept_ms }; `lag` adds a chart of the lag beside that of the rate.
export function RateHistory({ url, rateName, lag = false }) {
  const { value, error, again } = useGet(url);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) again(); }, EVERY_MS);
    return () => clearInterval(timer);
  }, [again]);
  const points = value?.points ?? [];
  const times = useMemo(() => points.map((each) => each[0] / 1000), [value]);
  if (error) return html`<${Problem} error=${error} again=${again} />`;
  if (!value) return null;
  const hours = Math.round(value.kept_ms / 3600000);
  const card = (name, place, colour, format) => html`
    <section class="card" aria-label=${t("app.ofHours", { name, n: hours })}>
      <h2>${t("app.ofHours", { name, n: hours })}</h2>
      ${points.length < 2 ? html`<p class="empty">${t("app.noHistory")}</p>` : html`
        <${OneChart} name=${name} times=${times} points=${points} place=${place} colour=${colour} format=${format} />`}
    </section>`;
  return html`
    <div class="columns">
      ${lag && card(t("groups.lag"), LAG, "--series-4", short)}
      ${card(rateName, RATE, "--series-1", rate)}
    </div>`;
}

function OneChart({ name, times, points, place, colour, format }) {
  const values = points.map((each) => each[place]);
  const series = useMemo(() => [{ label: name, colour, values }], [points, name]);
  const last = values.at(-1);
  return html`<${Chart} times=${times} series=${series} height=${150} format=${format} says=${t("app.historySays", { name, from: time(points[0][0]), now: format(last) })} />`;
}
