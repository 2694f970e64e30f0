// The buffer of a live tail: the last rows, and those that arrived while it is paused. Both are bounded, and dropped
// rows are counted.
export const MOST = 5_000;

const empty = () => ({ scanned: 0, matched: 0, skipped: 0 });

export class TailBuffer {
  constructor() {
    this.rows = [];
    this.received = 0; // rows that the server sent
    this.dropped = 0; // rows that were dropped from the start
    this.held = []; // arrived while paused
    this.heldDropped = 0;
    this.pausedAt = null;
    this.queues = null;
    this.flows = false; // whether the stream has sent anything since it was opened
    this.counts = empty(); // the server's counts of this stream
    this.before = empty(); // and of lost streams before it
    this.cuts = [];
    this.seconds = []; // [second, rows] of the last minute
  }

  add(batch) {
    this.flows = true;
    this.counts = batch;
    this.queues = batch.queues;
    if (!batch.rows.length) return;
    this.received += batch.rows.length;
    this.countRows(batch.rows.length);
    const into = this.pausedAt === null ? this.rows : this.held;
    for (const row of batch.rows) into.push(row);
    if (into.length <= MOST) return;
    const over = into.length - MOST;
    into.splice(0, over);
    if (this.pausedAt === null) this.dropped += over; else this.heldDropped += over;
  }

  countRows(count) {
    const second = Math.floor(Date.now() / 1000);
    const last = this.seconds.at(-1);
    if (last && last[0] === second) last[1] += count; else this.seconds.push([second, count]);
    while (this.seconds.length && this.seconds[0][0] < second - 60) this.seconds.shift();
  }

  // Rows per second over the last five full seconds.
  rate() {
    const now = Math.floor(Date.now() / 1000);
    return this.seconds.reduce((sum, [second, count]) => sum + (second < now && second >= now - 5 ? count : 0), 0) / 5;
  }

  // One number for each of the last thirty full seconds.
  minute() {
    const now = Math.floor(Date.now() / 1000), found = new Map(this.seconds);
    return Array.from({ length: 30 }, (_, place) => found.get(now - 30 + place) || 0);
  }

  // The connection was lost, and a new stream counts from zero.
  disconnected() {
    if (!this.flows) return;
    this.flows = false;
    this.before = this.total();
    this.counts = empty();
    this.cuts.push(Date.now());
    if (this.cuts.length > 3) this.cuts.shift();
  }

  total() {
    const add = (name) => this.before[name] + this.counts[name];
    return { scanned: add("scanned"), matched: add("matched"), skipped: add("skipped") };
  }

  get waiting() { return this.held.length + this.heldDropped; }

  pause() { this.pausedAt = Date.now(); }

  // Resume with what arrived meanwhile, or without it. Returns the counts.
  resume(fromNow) {
    const counts = { n: this.waiting, lost: this.heldDropped, fromNow };
    if (!fromNow) for (const row of this.held) this.rows.push(row);
    if (this.rows.length > MOST) this.dropped += this.rows.splice(0, this.rows.length - MOST).length;
    this.held = [];
    this.heldDropped = 0;
    this.pausedAt = null;
    return counts;
  }

  clear() {
    this.dropped += this.rows.length;
    this.rows = [];
  }
}
