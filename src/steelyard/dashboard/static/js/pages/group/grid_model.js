// The model of the grid, for the live group or a moment of its history: columns of members, rows of queues.
import { lastMoves, movedIn, queueKey, stateAt } from "./history.js";

const FRESH_MS = 6000;

const sum = (lags) => (lags.some((lag) => lag !== null) ? lags.reduce((all, lag) => all + (lag ?? 0), 0) : null);

// A model: { past, at, members: [{ id, head, gone, queues, lag }], parts: [{ topic, broker, retry, rows, lag }] };
// a row is { key, queue, owners, lag, last, move }: `last` is how it came to its owner, `move` the same if it was just then.
export function liveGrid(now, records, event) {
  const ids = now.members.map((member) => member.id);
  const isFresh = event && now.at_ms - event.end < FRESH_MS;
  const parts = now.queue_grids.map((part) => ({
    ...part, rows: part.queues.map((queue, place) => ({ queue, owners: part.owners[place].map((owner) => ids[owner]), lag: part.lags[place] })),
  }));
  return drawn(parts, now.members.map((head) => ({ id: head.id, head })), isFresh ? event : null, lastMoves(records, Infinity), now.at_ms, false);
}

export function pastGrid(records, event, at) {
  const state = stateAt(records, at);
  if (!state) return null;
  return drawn(state.parts, state.members.map((id) => ({ id, head: null })), event, lastMoves(records, at), at, true);
}

function drawn(parts, members, event, last, at, past) {
  const moved = movedIn(event, past ? at : Infinity);
  const columns = new Map(members.map((member) => [member.id, { ...member, gone: false, queues: 0, lag: null }]));
  const column = (id) => {
    if (!columns.has(id)) columns.set(id, { id, head: null, gone: true, queues: 0, lag: null });
    return columns.get(id);
  };
  const shown = parts.map((part) => {
    const rows = part.rows.map((row) => {
      const key = queueKey({ ...part, queue: row.queue });
      const move = moved[key]?.before && !row.owners.includes(moved[key].before) ? moved[key] : null;
      row.owners.forEach((owner) => { column(owner).queues += part.retry ? 0 : 1; column(owner).lag = sum([column(owner).lag, row.lag]); });
      // A previous owner that left keeps its column for a moment.
      if (move && !part.retry && !move.before.includes(" and ")) column(move.before);
      return { ...row, key, move, last: row.owners.includes(last[key]?.after) ? last[key] : null };
    });
    return { topic: part.topic, broker: part.broker, retry: part.retry, rows, lag: sum(rows.map((row) => row.lag)) };
  });
  const rows = shown.filter((part) => !part.retry).flatMap((part) => part.rows);
  return {
    past, at, parts: shown, members: [...columns.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    // If no owner is known at all, queues are not known to be without one.
    unowned: rows.some((row) => !row.owners.length) && (!members.length || rows.some((row) => row.owners.length)),
  };
}
