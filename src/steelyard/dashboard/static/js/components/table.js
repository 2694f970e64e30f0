// A table with sorting and search, fast with thousands of rows: it shows the first ones.
import { html, useMemo, useState } from "../app/html.js";
import { t } from "../app/i18n.js";
import { Empty } from "./status.js";

const FIRST = 100;
const kindOf = (column) => `${column.number ? "number" : ""}${column.wide ? " wide" : ""}`.trim();
const order = (a, b) => {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
};

// columns: [{ name, key, value(row), cell(row), number, sortable, wide }]: `value` is sorted and searched by, `cell` is shown;
// a narrow screen leaves out the `wide` ones.
// rows: any values; `rowKey(row)` identifies them. `search` adds a box that searches the values of all columns.
export function Table({ caption, columns, rows, rowKey, search = false, sortBy, descending = false, empty, rowClass, first = FIRST }) {
  const [sorted, setSorted] = useState({ key: sortBy, descending });
  const [wanted, setWanted] = useState("");
  const [all, setAll] = useState(false);
  const shown = useMemo(() => {
    const column = columns.find((each) => each.key === sorted.key);
    const text = wanted.trim().toLowerCase();
    const found = text ? rows.filter((row) => columns.some((each) => each.value && String(each.value(row) ?? "").toLowerCase().includes(text))) : rows;
    if (!column?.value) return found;
    const sign = sorted.descending ? -1 : 1;
    return [...found].sort((a, b) => sign * order(column.value(a), column.value(b)));
  }, [rows, columns, sorted, wanted]);
  const turn = (key) => setSorted((before) => (before.key === key ? { key, descending: !before.descending } : { key, descending: Boolean(columns.find((each) => each.key === key)?.number) }));
  const part = all ? shown : shown.slice(0, first);
  return html`
    ${search && html`
      <label class="search"><span class="hidden">${t("app.search")}</span>
        <input type="search" data-search placeholder=${t("app.search")} value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
        ${wanted && html`<span class="quiet" role="status">${t("app.shown", { shown: shown.length, all: rows.length })}</span>`}
      </label>`}
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="hidden">${caption}</caption>
        <thead><tr>${columns.map((each) => html`
          <th key=${each.key} scope="col" class=${kindOf(each)} aria-sort=${sorted.key === each.key ? (sorted.descending ? "descending" : "ascending") : undefined}>
            ${each.value && each.sortable !== false ? html`<button class="sort" onClick=${() => turn(each.key)} title=${t("app.sortBy", { column: each.name })}>${each.name}<span aria-hidden="true">${sorted.key === each.key ? (sorted.descending ? " ↓" : " ↑") : ""}</span></button>` : each.name}
          </th>`)}</tr></thead>
        <tbody>${part.map((row) => html`
          <tr key=${rowKey(row)} class=${rowClass ? rowClass(row) : ""}>${columns.map((each, place) => {
            const inside = each.cell ? each.cell(row) : each.value(row);
            return place === 0 ? html`<th key=${each.key} scope="row" class=${kindOf(each)}>${inside}</th>` : html`<td key=${each.key} class=${kindOf(each)}>${inside}</td>`;
          })}</tr>`)}</tbody>
      </table>
    </div>
    ${!shown.length && html`<${Empty}>${empty}<//>`}
    ${shown.length > part.length && html`<button onClick=${() => setAll(true)}>${t("app.showAll", { n: shown.length })}</button>`}`;
}
