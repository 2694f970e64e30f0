// Members: a short name and a colour each, the same wherever they are shown; and why queues moved between them.
import { language, t } from "../app/i18n.js";

// "10.0.0.7@till-1#4711#17…@sy1" is till-1; a number alone is a process id, and means little without its host.
function shortest(id) {
  const head = id.split("#", 1)[0];
  const own = head.slice(head.indexOf("@") + 1);
  if (head.includes("@") && own && !/^\d+$/.test(own)) return own;
  return head.length > 28 ? `…${head.slice(-26)}` : head;
}

// Short names for ids; a later id with the same name gets a number: it may be the same client, restarted.
export function namesOf(ids) {
  const names = {}, taken = {};
  for (const id of ids) {
    if (names[id]) continue;
    const name = shortest(id);
    taken[name] = (taken[name] || 0) + 1;
    names[id] = taken[name] === 1 ? name : `${name} (${taken[name]})`;
  }
  return names;
}

// A sentence with short names in the place of ids; the longest first, since one id may begin another.
export function withShortNames(sentence, names) {
  let text = sentence;
  for (const id of Object.keys(names).sort((a, b) => b.length - a.length)) {
    if (names[id] !== id) text = text.replaceAll(id, names[id]);
  }
  return text;
}

// The protocol level of a member: of ours it is not the release, of Apache's clients it is both.
export const speaksText = ({ is_steelyard: ours, release }) => (release && ours ? t("groups.speaks", { release }) : release || "");

export const COLOURS = 8;

// Colours from 1 to 8: a new member gets one that no current member has. `snapshots` are lists of ids, the oldest first.
export function coloursOf(snapshots) {
  const colours = {};
  for (const ids of snapshots) {
    for (const id of ids) {
      if (colours[id]) continue;
      const used = Array(COLOURS).fill(0);
      ids.forEach((each) => { if (colours[each]) used[colours[each] - 1] += 1; });
      colours[id] = used.indexOf(Math.min(...used)) + 1;
    }
  }
  return colours;
}

// Why a queue moved, in the language of the page. Brokers record it in English, in a few fixed sentences.

const ZH = [
  [/^the broker was restarted/, "Broker 重启"],
  [/^topic (\S+) is gone$/, "主题 $1 已删除"],
  [/ joined(?=,| and |$)/g, " 加入"],
  [/ left(?=,| and |$)/g, " 离开"],
  [/ disconnected \(connection closed\)/g, " 断开：连接已关闭"],
  [/ disconnected \(no heartbeat for (\d+) s\)/g, " 断开：$1 秒没有心跳"],
  [/ disconnected(?= \(|,| and |$)/g, " 断开"],
  [/ subscribes to other topics/g, " 订阅了其他主题"],
  [/ gave it up$/, " 主动交出"],
  [/ did not renew its lock$/, " 没有续期队列锁"],
  [/ and (\d+) more changed$/, "，另有 $1 处变化"],
  [/, /g, "，"],
];

export function rebalanceReason(why, names) {
  const text = withShortNames(why, names);
  return language() === "zh" ? ZH.reduce((made, [pattern, words]) => made.replace(pattern, words), text) : text;
}
