// Charts over time: uPlot in the colours of the page, with a text alternative.
import uPlot from "../../vendor/uplot.js";
import { time } from "../app/format.js";
import { html, useEffect, useRef } from "../app/html.js";

// A CSS variable as a colour: only a rendered element knows its value in light or dark mode.
function colour(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
const SHORTEST_S = 60;
const STEPS = Array.from({ length: 15 }, (_, place) => [1, 2, 5].map((each) => each * 10 ** place)).flat(); // whole numbers
const faint = (name) => `color-mix(in srgb, ${colour(name)} 14%, transparent)`;

// At least a minute is drawn: with a single point the axis would have years.
function padded(times, columns) {
  const last = times.length ? times[times.length - 1] : Date.now() / 1000;
  if (times.length && last - times[0] >= SHORTEST_S) return [times, ...columns];
  return [[last - SHORTEST_S, ...times, ...(times.length ? [] : [last])], ...columns.map((each) => [null, ...each, ...(times.length ? [] : [null])])];
}

// series: [{ label, colour: "--series-1", values: [..] }], times: seconds since the epoch, as many as values.
// `says` is the text alternative; `format` formats the numbers of the axis.
export function Chart({ times, series, says, height = 160, format = (value) => String(value) }) {
  const box = useRef(null);
  const plot = useRef(null);
  const values = padded(times, series.map((each) => each.values));
  const newest = useRef(values);
  newest.current = values;
  useEffect(() => {
    const axis = () => ({ stroke: colour("--text-quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } });
    const draw = () => {
      if (!box.current) return; // the page was left before the chart was drawn
      plot.current?.destroy();
      plot.current = new uPlot({
        width: box.current.clientWidth || 300,
        height,
        legend: { show: series.length > 1, live: false },
        cursor: { y: false },
        scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), Math.max(4, (most ?? 1) * 1.08)] } },
        axes: [{ ...axis(), size: 28, space: 70, values: (_, ticks) => ticks.map((each) => time(each * 1000, { zoned: false })) }, { ...axis(), size: 56, incrs: STEPS, values: (_, ticks) => ticks.map(format) }],
        series: [{}, ...series.map((each) => ({
          label: each.label, stroke: colour(each.colour), width: 2, fill: faint(each.colour), points: { show: false }, value: (_, value) => (value === null || value === undefined ? "–" : format(value)),
        }))],
      }, newest.current, box.current);
    };
    draw();
    const resized = new ResizeObserver(() => { if (box.current) plot.current?.setSize({ width: box.current.clientWidth || 300, height }); });
    if (box.current) resized.observe(box.current);
    addEventListener("steelyard:theme", draw);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      removeEventListener("steelyard:theme", draw);
      scheme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [series.length, height]);
  useEffect(() => { plot.current?.setData(values); }, [times, series]);
  return html`<div class="chart" role="img" aria-label=${says} ref=${box}></div>`;
}

// A sparkline: the last values of something.
export function Sparkline({ values, says, width = 90, height = 22 }) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${says}></svg>`;
  const most = Math.max(1e-9, ...known);
  const points = values.map((value, place) => `${((place / (values.length - 1)) * (width - 2) + 1).toFixed(1)},${(height - 2 - ((value ?? 0) / most) * (height - 4)).toFixed(1)}`);
  return html`<svg class="spark" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${says}><polyline points=${points.join(" ")} /></svg>`;
}
