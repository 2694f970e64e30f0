// Strategies side by side: how even each shares, and what it moves held against the least possible.
import { html } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { markOf, partsOf } from "./member_marks.js";

const LETTERED = 96;

export function Strategies({ plan, chosen, colours, onChoose }) {
  const tried = plan.strategies.filter((each) => each.unavailable_reason === null);
  const others = plan.strategies.filter((each) => each.unavailable_reason !== null);
  return html`
    <fieldset class="strategies"><legend>${t("plan.strategies")}</legend>
      <div class="side-by-side">
        ${tried.map((each) => html`<${Strategy} key=${each.name} plan=${plan} tried=${each} colours=${colours} isChosen=${each === chosen} onChoose=${() => onChoose(each.name)} />`)}
      </div>
      ${others.length > 0 && html`
        <details><summary>${t("plan.others", { n: others.length })}</summary>
          <ul>${others.map((each) => html`<li key=${each.name}><strong>${each.java_name || each.name}</strong>${each.is_current && html` <span class="badge">${t("plan.own")}</span>`}: ${each.unavailable_reason}</li>`)}</ul>
        </details>`}
    </fieldset>`;
}

function Strategy({ plan, tried, colours, isChosen, onChoose }) {
  const each = tried.min_queues === tried.max_queues ? t("plan.each", { n: tried.max_queues }) : t("plan.eachBetween", { fewest: tried.min_queues, most: tried.max_queues });
  const most = Math.max(1, plan.queues.length);
  return html`
    <label class=${`card strategy ${isChosen ? "chosen" : ""}`} data-strategy=${tried.name}>
      <span class="row head">
        <input type="radio" name="strategy" value=${tried.name} checked=${isChosen} onChange=${onChoose} />
        <strong>${tried.java_name || tried.name}</strong>
        ${tried.is_current && html`<span class="badge">${t("plan.own")}</span>`}
      </span>
      <span class="each">${each}</span>
      <span class="versus">
        <span>${t("plan.moved")}</span><span class="meter" aria-hidden="true"><i class=${tried.moved > tried.min_moves ? "more" : ""} style=${{ width: `${(tried.moved / most) * 100}%` }}></i></span><b class="moved">${tried.moved}</b>
        <span>${t("plan.least")}</span><span class="meter" aria-hidden="true"><i style=${{ width: `${(tried.min_moves / most) * 100}%` }}></i></span><b class="least">${tried.min_moves}</b>
      </span>
      <span class="verdict">${tried.moved <= tried.min_moves ? html`<span class="good">✓ ${t("plan.isLeast")}</span>` : html`<span class="warn">${t("plan.moreThanLeast", { n: tried.moved - tried.min_moves })}</span>`}
        ${tried.idle.length > 0 && html` <span class="warn">${t("plan.idle", { n: tried.idle.length })}</span>`}
        ${tried.overlaps.length > 0 && html` <span class="bad">${t("plan.overlaps", { n: tried.overlaps.length })}</span>`}</span>
      <${Strip} plan=${plan} tried=${tried} colours=${colours} />
    </label>`;
}

// Who would have each queue, in a line: those that move are underlined.
function Strip({ plan, tried, colours }) {
  const isSmall = plan.queues.length > LETTERED;
  return html`
    <span class=${`strip ${isSmall ? "tiny" : ""}`} aria-hidden="true">
      ${partsOf(plan.queues).map((part) => html`<span key=${part.key} class="part">${part.numbers.map((number) => {
        const now = tried.owners[number];
        return html`<i key=${number} class=${`${now < 0 ? "nobody" : `member-${colours[plan.members[now].name]}`} ${now !== plan.queues[number].owner ? "moves" : ""}`}>${isSmall ? "" : markOf(now)}</i>`;
      })}</span>`)}
    </span>`;
}
