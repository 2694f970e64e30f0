// Changes of a topic, each in a dialog: a form, a preview with its command line, then the change itself.
import { path } from "../app/api.js";
import { bytes, whole } from "../app/format.js";
import { html, useEffect, useState } from "../app/html.js";
import { go } from "../app/router.js";
import { t } from "../app/i18n.js";
import { Confirm, useAction } from "../components/action.js";
import { Command } from "../components/command.js";
import { Dialog } from "../components/dialog.js";
import { Loading, Problem } from "../components/status.js";
import { Table } from "../components/table.js";

const MAYS = ["read-write", "read", "write", "nothing"];
const QUEUES = 8, MOST_QUEUES = 65536;

export const mayText = (may) => t({ "read-write": "topics.readWrite", read: "topics.readOnly", write: "topics.writeOnly", nothing: "topics.nothing" }[may]);

// The form is shown until there is a preview; "Cancel" there returns to it.
function Change({ title, action, about, onClose, onPreview, onApply, label, danger, form, preview, done }) {
  return html`
    <${Dialog} title=${title} onClose=${onClose} wide>
      ${!action.preview && !action.done && html`
        <form class="stack" onSubmit=${(event) => { event.preventDefault(); onPreview(); }}>
          ${form}
          ${action.error && html`<${Problem} error=${action.error} />`}
          <div class="row end"><button type="button" onClick=${onClose}>${t("app.cancel")}</button>
            <button class="main" disabled=${action.busy}>${t("app.preview")}</button></div>
        </form>`}
      ${action.preview && html`
        <section aria-label=${t("app.preview")}>${preview(action.preview)}
          <${Confirm} action=${action} about=${about} onApply=${onApply} label=${label} danger=${danger} /></section>`}
      ${action.done && html`
        <p class="done" role="status">✓ ${done(action.done)}</p>
        <${Command} line=${action.command} />
        <div class="row end"><button class="main" onClick=${onClose}>${t("app.close")}</button></div>`}
    <//>`;
}

const urls = (topic, what) => [path`/api/topics/${topic}/${what}/preview`, path`/api/topics/${topic}/${what}`];

function Select({ name, value, values, onValue }) {
  return html`<label class="field">${name}<select value=${value} onChange=${(event) => onValue(event.target.value)}>
    ${values.map(([each, text]) => html`<option key=${each} value=${each}>${text}</option>`)}</select></label>`;
}

const Count = ({ name, value, onValue, ...others }) => html`
  <label class="field">${name}<input type="number" min="1" max=${MOST_QUEUES} value=${value} onInput=${(event) => onValue(event.target.value)} ...${others} /></label>`;

// What changes on each broker.
function Changes({ preview }) {
  const hidden = preview.changes.reduce((sum, each) => sum + each.hidden, 0);
  const isSame = preview.changes.every((each) => each.what === "keep");
  return html`
    ${isSame && html`<p role="status">${t("topics.noChange", { topic: preview.topic })}</p>`}
    ${hidden > 0 && html`<p class="problem" role="alert">${t("topics.hides", { n: hidden })}</p>`}
    <${Table} caption=${t("app.preview")} rows=${preview.changes} rowKey=${(row) => row.broker} columns=${[
      { key: "broker", name: t("topics.broker"), value: (row) => row.broker },
      { key: "what", name: t("topics.change"), value: (row) => t(`topics.change.${row.what}`) },
      { key: "details", name: t("topics.details"), value: (row) => row.details },
    ]} />`;
}

export function CreateTopic({ about, onClose }) {
  const [name, setName] = useState("");
  const [queues, setQueues] = useState(String(QUEUES));
  const [may, setMay] = useState(MAYS[0]);
  const [order, setOrder] = useState(false);
  const action = useAction(...urls(name.trim(), "create"));
  const wanted = { queues: Number(queues), may, order };
  const close = () => { onClose(); if (action.done) go(path`/topics/${action.done.topic}`); };
  return html`
    <${Change} title=${t("topics.create")} action=${action} about=${about} onClose=${close} label=${t("topics.create")}
      onPreview=${() => action.showPreview(wanted)} onApply=${() => action.act(wanted)}
      preview=${(preview) => html`<p><strong>${preview.topic}</strong></p><${Changes} preview=${preview} />`}
      done=${(done) => t("topics.created", { topic: done.topic })}
      form=${html`
        <div class="row">
          <label class="field">${t("topics.name")}<input name="topic" required autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
          <${Count} name=${t("topics.queuesPerBroker")} value=${queues} onValue=${setQueues} required />
          <${Select} name=${t("topics.permissions")} value=${may} values=${MAYS.map((each) => [each, mayText(each)])} onValue=${setMay} />
        </div>
        <label><input type="checkbox" checked=${order} onChange=${(event) => setOrder(event.target.checked)} /> ${t("topics.fixOrder")}</label>`} />`;
}

export function TopicSettings({ topic, brokers, about, onClose }) {
  const [reads, setReads] = useState("");
  const [writes, setWrites] = useState("");
  const [may, setMay] = useState("");
  const [order, setOrder] = useState("");
  const action = useAction(...urls(topic, "settings"));
  const wanted = { read_queues: reads ? Number(reads) : null, write_queues: writes ? Number(writes) : null, may: may || null, order: order ? order === "fixed" : null };
  const now = (of) => [...new Set(brokers.map(of))].join(" / ");
  return html`
    <${Change} title=${t("topics.settingsOf", { topic })} action=${action} about=${about} onClose=${onClose} label=${t("app.apply")} danger
      onPreview=${() => action.showPreview(wanted)} onApply=${() => action.act(wanted)}
      preview=${(preview) => html`<${Changes} preview=${preview} />`}
      done=${(done) => t("topics.changed", { topic: done.topic })}
      form=${html`
        <div class="row">
          <${Count} name=${t("topics.readQueues")} value=${reads} onValue=${setReads} placeholder=${now((each) => each.read_queues)} />
          <${Count} name=${t("topics.writeQueues")} value=${writes} onValue=${setWrites} placeholder=${now((each) => each.write_queues)} />
          <${Select} name=${t("topics.permissions")} value=${may} values=${[["", t("topics.unchanged")], ...MAYS.map((each) => [each, mayText(each)])]} onValue=${setMay} />
          <${Select} name=${t("topics.queueList")} value=${order} values=${[["", t("topics.unchanged")], ["fixed", t("topics.fixed")], ["free", t("topics.free")]]} onValue=${setOrder} />
        </div>
        <p class="quiet">${t("topics.settingsAbout")}</p>`} />`;
}

export function DeleteTopic({ topic, about, onClose }) {
  const action = useAction(...urls(topic, "delete"));
  useEffect(() => { action.showPreview({}); }, []);
  const close = () => { onClose(); if (action.done) go("/topics"); };
  return html`
    <${Dialog} title=${t("topics.deleteOf", { topic })} onClose=${close}>
      ${!action.preview && !action.done && !action.error && html`<${Loading} />`}
      ${action.error && !action.preview && html`<${Problem} error=${action.error} />`}
      ${action.preview && html`
        <section aria-label=${t("app.preview")}>
          <p role="status">${t("topics.wouldDelete", { n: action.preview.messages, topic, brokers: action.preview.brokers.join(", ") })}
            ${" "}${action.preview.groups.length ? t("topics.isRead", { groups: action.preview.groups.join(", ") }) : t("topics.noReaders")}</p>
          <${Confirm} action=${{ ...action, reset: close }} about=${about} onApply=${() => action.act({})} label=${t("topics.delete")} danger />
        </section>`}
      ${action.done && html`
        <p class="done" role="status">✓ ${t("topics.deleted", { n: action.done.messages, topic })}</p>
        <${Command} line=${action.command} />
        <div class="row end"><button class="main" onClick=${close}>${t("app.close")}</button></div>`}
    <//>`;
}

export function SendMessage({ topic, about, onClose }) {
  const [body, setBody] = useState("");
  const [tags, setTags] = useState("");
  const [keys, setKeys] = useState("");
  const [key, setKey] = useState("");
  const action = useAction(...urls(topic, "send"));
  const wanted = { body, tags: tags.trim() || null, keys: keys.split(/\s+/).filter(Boolean), key: key.trim() || null };
  const text = (name, value, setValue, hint) => html`<label class="field">${name}<input autocomplete="off" value=${value} title=${hint} onInput=${(event) => setValue(event.target.value)} /></label>`;
  return html`
    <${Change} title=${t("topics.sendTo", { topic })} action=${action} about=${about} onClose=${onClose} label=${t("topics.send")}
      onPreview=${() => action.showPreview(wanted)} onApply=${() => action.act(wanted)}
      preview=${(preview) => html`<p>${t("topics.wouldSend", { size: bytes(preview.size), topic: preview.topic })}
        ${" "}${preview.groups.length ? t("topics.isRead", { groups: preview.groups.join(", ") }) : t("topics.noReaders")}</p>`}
      done=${(done) => html`${t("topics.sent")} <a href=${path`/messages/${done.topic}/${done.broker}/${done.queue}/${done.offset}`}>${done.broker}:${whole(done.queue)}:${whole(done.offset)}</a>`}
      form=${html`
        <label class="field wide-field">${t("topics.body")}<textarea rows="6" value=${body} onInput=${(event) => setBody(event.target.value)}></textarea></label>
        <div class="row">
          ${text(t("topics.tag"), tags, setTags)}
          ${text(t("topics.keys"), keys, setKeys, t("topics.keysHint"))}
          ${text(t("topics.shardingKey"), key, setKey, t("topics.shardingKeyHint"))}
        </div>`} />`;
}
