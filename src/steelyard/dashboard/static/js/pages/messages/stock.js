// What a tail has got so far: the last rows, and while it is paused those that wait. Both are bounded, and what had to
// be let go is counted: nothing is lost without a number.
export const MOST = 5_000;

const empty = () => ({ seen: 0, matched: 0, skipped: 0 });

export class Stock {
  constructor() {
    this.rows = [];
    this.received = 0; // rows that the server sent
    this.dropped = 0; // rows that were let go at the beginning of those shown
    this.held = []; // came while paused
    this.heldDropped = 0;
    this.pausedAt = null;
    this.queues = null;
    this.flows = false; // whether the stream has said anything since it was opened
    this.told = empty(); // the server's counts of this stream
    this.before = empty(); // and of those that were cut before it
    this.cuts = [];
    this.seconds = []; // [second, rows] of the last minute
  }

  take(batch) {
    this.flows = true;
    this.told = batch;
    this.queues = batch.queues;
    if (!batch.rows.length) return;
    this.received += batch.rows.length;
    this.note(batch.rows.length);
    const into = this.pausedAt === null ? this.rows : this.held;
    for (const row of batch.rows) into.push(row);
    if (into.length <= MOST) return;
    const over = into.length - MOST;
    into.splice(0, over);
    if (this.pausedAt === null) this.dropped += over; else this.heldDropped += over;
  }

  note(count) {
    const second = Math.floor(Date.now() / 1000);
    const last = this.seconds.at(-1);
    if (last && last[0] === second) last[1] += count; else this.seconds.push([second, count]);
    while (this.seconds.length && this.seconds[0][0] < second - 60) this.seconds.shift();
  }

  // Rows a second over the last five whole seconds.
  rate() {
    const now = Math.floor(Date.now() / 1000);
    return this.seconds.reduce((sum, [second, count]) => sum + (second < now && second >= now - 5 ? count : 0), 0) / 5;
  }

  // One number for each of the last thirty whole seconds.
  minute() {
    const now = Math.floor(Date.now() / 1000), found = new Map(this.seconds);
    return Array.from({ length: 30 }, (_, place) => found.get(now - 30 + place) || 0);
  }

  // The stream was cut, and a new one begins to count anew.
  cut() {
    if (!this.flows) return;
    this.flows = false;
    this.before = this.total();
    this.told = empty();
    this.cuts.push(Date.now());
    if (this.cuts.length > 3) this.cuts.shift();
  }

  total() {
    const add = (name) => this.before[name] + this.told[name];
    return { seen: add("seen"), matched: add("matched"), skipped: add("skipped") };
  }

  get waiting() { return this.held.length + this.heldDropped; }

  pause() { this.pausedAt = Date.now(); }

  // Go on: with what came meanwhile, or without it. Gives what is to be said.
  resume(fromNow) {
    const said = { n: this.waiting, lost: this.heldDropped, fromNow };
    if (!fromNow) for (const row of this.held) this.rows.push(row);
    if (this.rows.length > MOST) this.dropped += this.rows.splice(0, this.rows.length - MOST).length;
    this.held = [];
    this.heldDropped = 0;
    this.pausedAt = null;
    return said;
  }

  clear() {
    this.dropped += this.rows.length;
    this.rows = [];
  }
}
