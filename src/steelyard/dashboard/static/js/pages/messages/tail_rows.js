// The rows of a tail: thousands are kept, and only visible ones are rendered. A view at the end stays at the end; one
// further up keeps its rows.
import { time, whole } from "../../app/format.js";
import { html, useLayoutEffect, useRef, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Plain } from "../../components/body.js";
import { Start } from "./search.js";
import { linkTo } from "./fields.js";

const ROW_PX = 30; // as css/messages.css has it
const AROUND = 6;
const HEIGHT_PX = 30 * 16;

export function TailRows({ rows, dropped }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const sticks = useRef(true);
  const wasDropped = useRef(dropped);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    sticks.current = scrollTop + clientHeight >= scrollHeight - ROW_PX;
    setTop(scrollTop);
  };
  useLayoutEffect(() => {
    if (sticks.current) box.current.scrollTop = box.current.scrollHeight;
    else if (dropped > wasDropped.current) box.current.scrollTop -= (dropped - wasDropped.current) * ROW_PX;
    wasDropped.current = dropped;
  });
  const fit = Math.ceil(HEIGHT_PX / ROW_PX);
  const end = sticks.current ? rows.length : Math.min(rows.length, Math.ceil(top / ROW_PX) + fit + AROUND);
  const start = Math.max(0, Math.min(sticks.current ? rows.length - fit - AROUND : Math.floor(top / ROW_PX) - AROUND, end));
  return html`
    <div class="tail-rows" ref=${box} tabindex="0" role="region" aria-label=${t("messages.tailRows")} onScroll=${scrolled}>
      <table aria-rowcount=${rows.length + 1}>
        <caption class="hidden">${t("messages.tailRows")}</caption>
        <colgroup><col class="c-time" /><col class="c-queue" /><col class="c-offset" /><col class="c-tag" /><col class="c-keys" /><col /></colgroup>
        <thead><tr><th scope="col">${t("messages.stored")}</th><th scope="col">${t("messages.queue")}</th><th scope="col" class="number">${t("messages.offset")}</th><th scope="col">${t("messages.tag")}</th><th scope="col">${t("messages.keys")}</th><th scope="col">${t("messages.body")}</th></tr></thead>
        <tbody>
          ${start > 0 && html`<tr key="above" class="space" aria-hidden="true" style=${{ height: `${start * ROW_PX}px` }}></tr>`}
          ${rows.slice(start, end).map((row, place) => html`
            <tr key=${`${row.broker}:${row.queue}:${row.offset}`} aria-rowindex=${start + place + 2} class="message">
              <td><time datetime=${new Date(row.stored_ms).toISOString()}>${time(row.stored_ms, { ms: true })}</time></td>
              <td>${row.broker}:${row.queue}</td>
              <td class="number"><a href=${linkTo(row)}>${whole(row.offset)}</a></td>
              <td>${row.tag !== null && html`<${Plain} text=${row.tag} />`}</td>
              <td><${Plain} text=${row.keys.join(" ")} /></td>
              <td><${Start} row=${row} /></td>
            </tr>`)}
          ${end < rows.length && html`<tr key="below" class="space" aria-hidden="true" style=${{ height: `${(rows.length - end) * ROW_PX}px` }}></tr>`}
        </tbody>
      </table>
      ${!rows.length && html`<p class="empty">${t("messages.nothingYet")}</p>`}
    </div>`;
}
