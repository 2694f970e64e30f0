// Who is in the group: members are dragged in and out, or moved by buttons and keys.
import { html, useEffect, useRef, useState } from "../../app/html.js";
import { t } from "../../app/i18n.js";
import { Mark } from "./member_marks.js";

const KIND = "application/x-steelyard-member";

function nextName(taken) {
  let number = 1;
  while (taken.includes(`new-${number}`)) number += 1;
  return `new-${number}`;
}

export function Members({ plan, chosen, join, leave, colours, onWish }) {
  const place = Object.fromEntries(plan.members.map((member, number) => [member.name, number]));
  const there = plan.members.filter((member) => member.change !== "joins");
  const out = there.filter((member) => leave.includes(member.name) || leave.includes(member.id));
  // A member that is leaving is out in every plan.
  const going = there.filter((member) => member.change === "leaves" && !out.includes(member));
  const inside = there.filter((member) => !out.includes(member) && !going.includes(member));
  const names = [...there.map((member) => member.name), ...join];
  const focus = useRef(null);
  useEffect(() => {
    // The focus stays on the member that was moved by a key.
    if (!focus.current) return;
    const [zone, name] = focus.current;
    const buttons = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`.zone.${zone} button[data-member]`));
    const found = [...buttons].find((each) => each.dataset.member === name);
    if (!found) return;
    found.focus();
    focus.current = null;
  });
  const add = (name) => {
    const wanted = name.trim() || nextName(names);
    if (!names.includes(wanted)) onWish({ join: [...join, wanted] });
  };
  const takeOut = (name) => {
    if (join.includes(name)) onWish({ join: join.filter((each) => each !== name) });
    else if (inside.some((member) => member.name === name)) onWish({ leave: [...leave, name] });
  };
  const putBack = (name) => {
    const id = there.find((member) => member.name === name)?.id;
    onWish({ leave: leave.filter((each) => each !== name && each !== id) });
  };
  const shared = { place, chosen, colours };
  return html`
    <div class="zones">
      <${Zone} kind="in" name=${t("plan.inside", { n: inside.length + join.length })} onDropped=${(name) => (name === "" ? add("") : putBack(name))}>
        ${inside.map((member) => html`<${Chip} key=${member.name} name=${member.name} member=${member} ...${shared} does=${t("plan.takeOut")} forward
          onMove=${() => { focus.current = ["out", member.name]; takeOut(member.name); }} />`)}
        ${join.map((name) => html`<${Chip} key=${name} name=${name} isNew ...${shared} does=${t("plan.remove")} forward onMove=${() => takeOut(name)} />`)}
        ${!inside.length && !join.length && html`<li class="empty">${t("plan.nobody")}</li>`}
      <//>
      <${Zone} kind="out" name=${t("plan.outside")} onDropped=${takeOut}>
        ${out.map((member) => html`<${Chip} key=${member.name} name=${member.name} member=${member} ...${shared} does=${t("plan.putBack")}
          onMove=${() => { focus.current = ["in", member.name]; putBack(member.name); }} />`)}
        ${going.map((member) => html`<${Chip} key=${member.name} name=${member.name} member=${member} ...${shared} hint=${t("plan.going")} />`)}
        <${Newcomer} suggested=${nextName(names)} onAdd=${add} />
      <//>
    </div>
    <p class="quiet fine">${t("plan.how")}</p>`;
}

// A place that members can be dropped on.
function Zone({ kind, name, onDropped, children }) {
  const [over, setOver] = useState(0);
  const isOurs = (event) => event.dataTransfer.types.includes(KIND);
  return html`
    <section class=${`card zone ${kind} ${over > 0 ? "over" : ""}`} aria-label=${name}
      onDragEnter=${(event) => { if (isOurs(event)) { event.preventDefault(); setOver((before) => before + 1); } }}
      onDragLeave=${(event) => { if (isOurs(event)) setOver((before) => before - 1); }}
      onDragOver=${(event) => { if (isOurs(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "move"; } }}
      onDrop=${(event) => { event.preventDefault(); setOver(0); onDropped(event.dataTransfer.getData(KIND)); }}>
      <h2>${name}</h2>
      <ul class="players">${children}</ul>
    </section>`;
}

const drag = (name) => (event) => {
  event.dataTransfer.setData(KIND, name);
  event.dataTransfer.setData("text/plain", name);
  event.dataTransfer.effectAllowed = "move";
};

function Chip({ name, member, isNew = false, place, chosen, colours, does, forward = false, hint, onMove }) {
  const number = place[name] ?? -1;
  const later = number >= 0 ? chosen?.counts[number] : undefined;
  const keys = (event) => {
    if (event.key === (forward ? "ArrowRight" : "ArrowLeft") || (forward && event.key === "Delete")) { event.preventDefault(); onMove(); }
  };
  return html`
    <li class="player" draggable=${Boolean(onMove)} onDragStart=${onMove && drag(name)} title=${member?.id}>
      <${Mark} place=${number} colour=${colours[name]} />
      <span class="who"><strong>${name}</strong>
        ${isNew && html` <span class="badge good">${t("plan.new")}</span>`}
        ${member && !member.is_steelyard && html` <span class="badge">${t("plan.foreign")}</span>`}
        ${hint && html` <span class="badge warn">${hint}</span>`}</span>
      <span class="quiet number">${t("plan.nowThen", { now: member?.queues_now ?? 0, later: later ?? "–" })}</span>
      ${onMove && html`<button class="plain" data-member=${name} onClick=${onMove} onKeyDown=${keys} aria-label=${`${does}: ${name}`}>${does}</button>`}
    </li>`;
}

// Who is not there yet: dragged in as it is, or added with a name.
function Newcomer({ suggested, onAdd }) {
  const [name, setName] = useState("");
  return html`
    <li class="player newcomer" draggable="true" onDragStart=${drag("")}>
      <span class="letter nobody" aria-hidden="true">+</span>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); onAdd(name); setName(""); }}>
        <label><span class="hidden">${t("plan.newName")}</span><input maxlength="255" value=${name} placeholder=${suggested} onInput=${(event) => setName(event.target.value)} /></label>
        <button>${t("plan.add")}</button>
      </form>
    </li>`;
}
