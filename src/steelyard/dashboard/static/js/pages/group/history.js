// The rebalance history of a group: rebalances, points in time, and the owners at any time. Nothing is rendered here.

const TOGETHER_MS = 1000, LONGEST_MS = 60000, ONE_CHANGE_MS = 50;

const began = (record) => record.rebalance?.began_ms ?? Math.min(record.at_ms, ...record.moves.map((move) => move.at_ms));
const ended = (record) => record.rebalance?.ended_ms ?? record.at_ms;
const isStop = (record) => record.moves.length > 0 || record.member_changes.length > 0;
const queueKey = (each) => `${each.topic}@${each.broker}:${each.queue}`;

// Merge new records with known ones; the same record may arrive twice.
export function withNew(known, added, isFirst) {
  if (isFirst) return sorted(added);
  if (!added.length) return known;
  const keys = new Set(known.map((record) => record.key));
  return sorted([...known, ...added.filter((record) => !keys.has(record.key))]);
}
const sorted = (records) => [...records].sort((a, b) => a.at_ms - b.at_ms).slice(-2000);

// The times of changes: where ← and → go. Brokers record one change one after the other, so of very close times the
// last one counts.
export function stopsOf(records) {
  const times = records.filter(isStop).map((record) => record.at_ms);
  return times.filter((at, place) => !(times[place + 1] - at < ONE_CHANGE_MS));
}

// Rebalances: records of all brokers close in time, with the queues that moved from first to last. A member that joins
// or leaves after queues have moved begins another one.
export function eventsOf(records) {
  const events = [];
  for (const record of records) {
    const from = began(record), last = events[events.length - 1];
    const changes = record.member_changes.map((each) => `${each.member} ${each.what === "leaving" ? "left" : each.what}`);
    const isOther = last?.hasMoved && changes.some((each) => !last.changes.has(each));
    if (last && !isOther && from <= last.end + TOGETHER_MS && record.at_ms - last.start < LONGEST_MS) {
      last.records.push(record);
      last.end = Math.max(last.end, ended(record));
      changes.forEach((each) => last.changes.add(each));
      last.hasMoved ||= record.moves.length > 0;
    } else events.push({ records: [record], start: from, end: ended(record), after: last?.end ?? 0, changes: new Set(changes), hasMoved: record.moves.length > 0 });
  }
  return events.map(summarise).filter((event) => event.moves.length || event.changed.length);
}

function summarise({ records, start, end, after }) {
  const queues = new Map(), changed = new Map();
  let left = 0;
  for (const record of records) {
    for (const each of record.member_changes) changed.set(each.member, each.what);
    for (const move of record.moves) {
      const known = queues.get(queueKey(move));
      queues.set(queueKey(move), known ? { ...move, before: known.before } : move);
    }
    left += record.moved_count - record.moves.length;
  }
  const moves = [...queues.values()].filter((move) => move.before !== move.after).sort((a, b) => a.at_ms - b.at_ms);
  const settled = records.map((record) => record.rebalance).filter(Boolean);
  const gaps = moves.map((move) => move.gap_ms).filter((gap) => gap !== null);
  const lasts = records.filter(isStop);
  // Members joined or left a little before the first queue moved; a broker may merge what are several rebalances here.
  const from = Math.max(after, start - TOGETHER_MS, Math.min(...settled.map((line) => line.began_ms)));
  return {
    key: records[0].key,
    start,
    end,
    at: (lasts[lasts.length - 1] ?? records[records.length - 1]).at_ms,
    changed: [...changed].map(([member, what]) => ({ member, what })),
    moves,
    moved: moves.filter((move) => move.before && move.after).length + left,
    taken: moves.filter((move) => !move.before).length,
    freed: moves.filter((move) => !move.after).length,
    gap: gaps.length ? Math.max(...gaps) : null,
    lasted: settled.length ? Math.max(0, ...settled.map((line) => line.ended_ms - from), ...moves.map((move) => move.at_ms - from)) : null,
    // The minimum is known for what a broker counts as one rebalance, which may be more than this.
    least: settled.length && settled.every((line) => line.least !== null && line.began_ms >= start - TOGETHER_MS) ? settled.reduce((sum, line) => sum + line.least, 0) : null,
  };
}

// The group at a time: { members, parts }, or null if unknown.
export function stateAt(records, at) {
  const past = records.filter((record) => record.at_ms <= at);
  if (!past.length) return null;
  const owners = new Map();
  for (const record of past) {
    for (const [broker, topics] of Object.entries(record.owners)) owners.set(broker, { names: record.owner_names, topics });
  }
  const parts = [];
  for (const [broker, { names, topics }] of [...owners].sort(([a], [b]) => a.localeCompare(b))) {
    for (const [topic, row] of Object.entries(topics)) {
      const rows = row.map((places, queue) => ({
        queue, lag: null, owners: (Array.isArray(places) ? places : places < 0 ? [] : [places]).map((place) => names[place]),
      }));
      parts.push({ topic, broker, retry: topic.startsWith("%RETRY%"), rows });
    }
  }
  parts.sort((a, b) => Number(a.retry) - Number(b.retry) || a.topic.localeCompare(b.topic) || a.broker.localeCompare(b.broker));
  return { members: past[past.length - 1].members, parts };
}

// The last move of each queue up to a time: since when, and why, its owner owns it.
export function lastMoves(records, at) {
  const last = {};
  for (const record of records) {
    if (record.at_ms > at) break;
    for (const move of record.moves) if (move.after) last[queueKey(move)] = move;
  }
  return last;
}

// The rebalance that a time belongs to: the last one that had begun.
export function eventAt(events, at) {
  for (let place = events.length - 1; place >= 0; place -= 1) if (events[place].start <= at) return events[place];
  return null;
}

// The previous owners, of the moves of an event up to a time: { "orders@broker-0:3": move }.
export const movedIn = (event, at) =>
  Object.fromEntries((event?.moves ?? []).filter((move) => move.at_ms <= at).map((move) => [queueKey(move), move]));

export { queueKey };
