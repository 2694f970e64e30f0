// Why a queue moved, in the page's language. Brokers write it down in English, in a few short sentences.
import { language } from "../frame/words.js";
import { said } from "./members.js";

const ZH = [
  [/^the broker was restarted/, "Broker 重启"],
  [/^topic (\S+) is gone$/, "主题 $1 已删除"],
  [/ joined(?=,| and |$)/g, " 加入"],
  [/ left(?=,| and |$)/g, " 离开"],
  [/ (?:is|was) gone(?=:|,| and |$)/g, " 消失"],
  [/: its line closed/g, "：连接已断开"],
  [/: it was silent for (\d+) s/g, "：$1 秒没有心跳"],
  [/ wants other topics/g, " 订阅了其他主题"],
  [/ gave it up$/, " 主动交出"],
  [/ did not renew its lock$/, " 没有续期队列锁"],
  [/ and (\d+) more changed$/, "，另有 $1 处变化"],
  [/, /g, "，"],
];

export function because(why, names) {
  const text = said(why, names);
  return language() === "zh" ? ZH.reduce((made, [pattern, words]) => made.replace(pattern, words), text) : text;
}
