"""Asking the others what they hold, where a broker keeps no leases; and poking those who hold what we wait for.

A *sweep* finds out whether anybody holds some queues of one broker. It begins after their locks were granted: the list
of members is read, then each one on it, or missing for a moment only, is asked through the broker, a few at a time. One
who is listed and silent counts as a holder until it is off the list. A foreign member is believed for a short while
only: it does not wait for us either. If our own id is not on the list nobody would ask us, so we take nothing. Who is
known by a closed line only is not waited for once a second sweep under the same lock has shown it (phantoms.py). Who is
silent and cannot hold the queue (possible_holders.py) is not waited for either, whether we know that or somebody else
who was asked under the same lock; then the lock is kept.

A *poke* is the same question, asked because a lock was denied for long: whoever hears it looks at the group again, and
unlocks what it does not know to have. On Apache's broker a member that died while it took a queue leaves a lock behind,
and nobody can tell whose it is; so it is let go in the name of everyone who departed lately.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.balance.actions import MOST_WANTED, AskGroup, AskHolders
from steelyard.balance.board import Board
from steelyard.balance.events import GroupFailed, GroupSeen, HoldersFailed, HoldersSeen, Poked
from steelyard.balance.life import Seen, State
from steelyard.balance.member_options import is_ours
from steelyard.balance.phantoms import Phantoms
from steelyard.balance.possible_holders import PossibleHolders
from steelyard.balance.record import Manner, Record, Step
from steelyard.balance.taking import Taking
from steelyard.model import Queue

__all__ = ["Asking", "Questions", "Sweep"]

_AT_A_TIME = 4
"""Apache's broker blocks one of 16 threads for each question."""

_LOCK_LIFE_MS = 60_000
"""After this Apache's broker has forgotten the lock of whoever departed."""

_FEW = 64
_MOST_DEPARTED = 10_000
"""A peer can tell of so many and no more: it may be mistaken, or worse."""


@dataclass(slots=True, eq=False)
class Sweep:
    """One look at who holds some queues."""

    ticket: int
    asked: dict[Queue, frozenset[str] | None]
    """Whom to ask for each queue; None: everybody."""
    is_listed: bool = False
    unanswered: int = 0
    holders: dict[Queue, set[str]] = field(default_factory=dict)
    seekers: dict[Queue, set[str]] = field(default_factory=dict)
    silent: dict[Queue, set[str]] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    """The list: who has two lines is in it twice."""
    closed: set[str] = field(default_factory=set)
    """Who is known by a closed line."""
    gone: set[str] = field(default_factory=set)
    """Whom the broker knows no more: it is off the list in a moment, and no lock need be kept for it."""
    phantoms: dict[Queue, frozenset[str]] = field(default_factory=dict)
    """Who was so in an earlier sweep under the same lock, and has no other line since."""


@dataclass(slots=True, eq=False)
class Questions:
    """The questions that go through one broker."""

    sweep: Sweep | None = None
    to_sweep: dict[Queue, frozenset[str] | None] = field(default_factory=dict)
    waiting: deque[tuple[str, tuple[Queue, ...], Sweep | None]] = field(default_factory=deque)
    out: dict[int, tuple[str, tuple[Queue, ...], Sweep | None]] = field(default_factory=dict)
    to_poke: dict[Queue, str | None] = field(default_factory=dict)


class Asking:
    """The questions of one member to the others."""

    def __init__(self, board: Board, taking: Taking) -> None:
        self._board = board
        self._taking = taking
        self._me = board.options.id
        self._times = board.times
        self._rounds: dict[str, Questions] = {}
        self._touched: dict[str, Questions] = {}
        self._ticket = -1
        self._listed_ms: dict[str, int] = {}
        """When each member of the group was last seen on a list."""
        self._phantoms: dict[Queue, Phantoms] = {}
        """Of queues that are being taken, where anybody is suspected."""
        self._cleared: dict[Queue, set[str]] = {}
        """Who cannot hold a queue that is being taken, by what others said under the same lock."""
        self._possible = PossibleHolders()

    @property
    def is_idle(self) -> bool:
        """Whether no sweep is under way; pokes do not count, nothing depends on them."""
        return all(each.sweep is None for each in self._rounds.values())

    def departed(self) -> dict[str, int]:
        """Return who departed lately, with the milliseconds since they were seen."""
        now_ms = self._board.now_ms
        return {
            member: now_ms - seen_ms
            for member, seen_ms in sorted(self._listed_ms.items())
            if now_ms - seen_ms < _LOCK_LIFE_MS and self._has_departed(member)
        }

    def possible_holders(self, queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
        """Return which of these queues each of the others may hold, where that is known: for one who is taking them."""
        return self._possible.of(queues[:MOST_WANTED])

    def sweep(self, record: Record, members: frozenset[str] | None) -> None:
        """Find out whether anybody holds a queue: these members, or everybody, as is asked under a new lock."""
        found = self._touch(record.broker)
        if members is None:
            self._phantoms.pop(record.queue, None)
            self._cleared.pop(record.queue, None)
            if found.sweep is not None:
                # What is answered there was asked under a lock that we lost meanwhile: somebody may have taken it then.
                found.sweep.asked.pop(record.queue, None)
        found.to_sweep[record.queue] = members

    def poke(self, record: Record, holder: str | None) -> None:
        """Ask who holds a queue to look at the group; if nobody knows who does, ask everybody."""
        now_ms = self._board.now_ms
        last_ms = record.poked_ms
        first_ms = (record.denied_ms if record.denied_ms is not None else now_ms) + self._times.poke_ms
        if now_ms < (first_ms if last_ms is None else last_ms + self._times.poke_again_ms):
            return
        record.poked_ms = now_ms
        # It may be our own plan that is out of date, made while others carried out theirs.
        self._board.views.ask_now(now_ms)
        self._touch(record.broker).to_poke[record.queue] = holder

    # -- asking -------------------------------------------------------------------------------------------------------

    def _touch(self, broker: str) -> Questions:
        found = self._rounds.get(broker)
        if found is None:
            found = self._rounds[broker] = Questions()
        self._touched[broker] = found
        return found

    def flush(self) -> None:
        """Ask whatever can be asked now."""
        while self._touched:
            broker, found = self._touched.popitem()
            if self._board.lines.is_registered(broker):
                self._begin(broker, found)
                self._poke(broker, found)
                self._ask_next(broker, found)

    def _begin(self, broker: str, found: Questions) -> None:
        if found.sweep is None and found.to_sweep:
            found.sweep = Sweep(self._next_ticket(), found.to_sweep)
            found.to_sweep = {}
            self._board.say(AskGroup(broker, found.sweep.ticket))

    def _poke(self, broker: str, found: Questions) -> None:
        if not found.to_poke:
            return
        by_holder: dict[str, list[Queue]] = {}
        everybody: tuple[str, ...] | None = None
        for queue, holder in found.to_poke.items():
            if holder:
                by_holder.setdefault(holder, []).append(queue)
                continue
            if everybody is None:
                everybody = self._board.views.listed(broker, self._board.now_ms)
            for member in everybody:
                by_holder.setdefault(member, []).append(queue)
        if self._taking.manner(broker) is Manner.ASKED:
            self._unlock_for_departed(broker, tuple(found.to_poke))
        found.to_poke.clear()
        busy = {member for member, _, sweep in (*found.waiting, *found.out.values()) if sweep is None}
        for member, queues in by_holder.items():
            if member != self._me and is_ours(member) and member not in busy:
                found.waiting.append((member, tuple(queues), None))

    def _unlock_for_departed(self, broker: str, queues: tuple[Queue, ...]) -> None:
        for member in self.departed():
            if is_ours(member) and member != self._me:
                self._taking.want_unlock_for(broker, member, queues)

    def _ask_next(self, broker: str, found: Questions) -> None:
        while found.waiting and len(found.out) < _AT_A_TIME:
            question = found.waiting.popleft()
            ticket = self._next_ticket()
            found.out[ticket] = question
            self._board.say(AskHolders(broker, question[0], question[1], ticket, asked_ms=self._board.now_ms))

    def _next_ticket(self) -> int:
        self._ticket += 2
        return self._ticket

    # -- answers ------------------------------------------------------------------------------------------------------

    def listed(self, event: GroupSeen | GroupFailed) -> None:
        """Take a list of members: it tells whom a sweep asks."""
        if isinstance(event, GroupSeen):
            self._note_listed(event.ids)
            if self._me in event.ids:
                self._possible.listed(event.broker, self._board.now_ms)
            else:
                self._possible.unlisted(event.broker)
        found = self._rounds.get(event.broker)
        if found is None or found.sweep is None or found.sweep.ticket != event.ticket or found.sweep.is_listed:
            return
        sweep = found.sweep
        sweep.is_listed = True
        if isinstance(event, GroupFailed) or self._me not in event.ids:
            self._give_up(event.broker, found)
            return
        self._sift(sweep, event.ids)
        for member in self._board.views.listed(event.broker, self._board.now_ms):
            if member == self._me:
                continue
            queues = tuple(queue for queue, whom in sweep.asked.items() if whom is None or member in whom)
            if queues:
                sweep.unanswered += 1
                found.waiting.append((member, queues, sweep))
        self._touched[event.broker] = found
        if not sweep.unanswered:
            self._conclude(event.broker, found, sweep)

    def _sift(self, sweep: Sweep, said: tuple[str, ...]) -> None:
        sweep.said = said
        for queue in sweep.asked if self._phantoms else ():
            if queue in self._phantoms:
                grace_ms = self._times.departed_ms
                sweep.phantoms[queue] = self._phantoms[queue].after(said, self._board.now_ms, grace_ms)

    def _note_listed(self, members: tuple[str, ...]) -> None:
        now_ms = self._board.now_ms
        for member in members:
            self._listed_ms[member] = now_ms
        if max(len(self._listed_ms), self._possible.members) > 2 * len(members) + _FEW:
            self._listed_ms = {who: at_ms for who, at_ms in self._listed_ms.items() if now_ms - at_ms < _LOCK_LIFE_MS}
            self._possible.keep_only(self._listed_ms)

    def answered(self, event: HoldersSeen | HoldersFailed) -> None:
        """Take the answer of one member, whatever it was asked for."""
        if isinstance(event, HoldersSeen):
            self._possible.reported(event.member, event.held | event.wanted, event.asked_ms)
        found = self._rounds.get(event.broker)
        question = None if found is None else found.out.pop(event.ticket, None)
        if found is None or question is None:
            return
        self._touched[event.broker] = found
        member, queues, sweep = question
        if isinstance(event, HoldersSeen):
            self._note_departed(event.departed)
        if sweep is None or found.sweep is not sweep:
            return
        if isinstance(event, HoldersSeen) and event.may_hold:
            named = (queue for queue in queues[:MOST_WANTED] if queue in sweep.asked)
            self._note_cleared(frozenset(named), event.may_hold)
        if isinstance(event, HoldersFailed) and event.gone:
            sweep.gone.add(member)
        for queue in queues:
            self._note_closed(queue, sweep, event)
            if isinstance(event, HoldersFailed):
                sweep.silent.setdefault(queue, set()).add(member)
            elif queue in event.held:
                sweep.holders.setdefault(queue, set()).add(member)
            elif queue in event.wanted:
                sweep.seekers.setdefault(queue, set()).add(member)
        sweep.unanswered -= 1
        if not sweep.unanswered:
            self._conclude(event.broker, found, sweep)

    def poked(self, event: Poked) -> None:
        """Take note that a member asks about queues, which it may be about to take."""
        if event.wanted:
            self._possible.asked(event.member, event.wanted, self._board.now_ms)

    def _note_closed(self, queue: Queue, sweep: Sweep, event: HoldersSeen | HoldersFailed) -> None:
        if isinstance(event, HoldersFailed) and event.closed:
            sweep.closed.add(event.member)
            self._phantoms.setdefault(queue, Phantoms()).found_closed(event.member, sweep.said, self._board.now_ms)
        elif queue in self._phantoms:
            self._phantoms[queue].spoke(event.member)

    def _note_cleared(self, queues: frozenset[Queue], may_hold: Mapping[str, tuple[Queue, ...]]) -> None:
        """Take what a member knows of others; it was asked about these queues after their locks were granted."""
        for member, possible in may_hold.items():
            for queue in queues.difference(possible):
                self._cleared.setdefault(queue, set()).add(member)

    def _note_departed(self, departed: Mapping[str, int]) -> None:
        for member, ago_ms in departed.items():
            if 0 <= ago_ms < _LOCK_LIFE_MS and len(self._listed_ms) < _MOST_DEPARTED:
                self._listed_ms.setdefault(member, self._board.now_ms - ago_ms)

    def _has_departed(self, member: str) -> bool:
        views, now_ms = self._board.views, self._board.now_ms
        if member in views.members() or member == self._me:
            return False
        return views.has_departed(member, now_ms) or now_ms - self._listed_ms[member] >= self._times.departed_ms * 2

    def _conclude(self, broker: str, found: Questions, sweep: Sweep) -> None:
        found.sweep = None
        self._touched[broker] = found
        listed = frozenset(self._board.views.listed(broker, self._board.now_ms))
        for queue in sweep.asked:
            record = self._board.records.get(queue)
            if record is not None and _waits(record):
                self._tell(record, sweep, listed)

    def _tell(self, record: Record, sweep: Sweep, listed: frozenset[str]) -> None:
        board, queue = self._board, record.queue
        holders = self._counting(record, sweep.holders.get(queue, ()), listed)
        silent = self._counting(record, sweep.silent.get(queue, ()), listed) - self._surely_gone(record, sweep)
        if holders or (record.state is State.UNSURE and queue in sweep.seekers):
            board.see(record, Seen.PEER_HOLDS, holders | silent)
        elif any(member in sweep.gone or self._may_hold(member, record) for member in silent):
            board.see(record, Seen.PEER_SILENT, silent)
        else:
            board.see(record, Seen.NOBODY_HOLDS, bool(silent))

    def _may_hold(self, member: str, record: Record) -> bool:
        """Say whether a silent member may hold a queue; without a lock, it might be taking it by the same rule."""
        if not record.maybe_held or not is_ours(member):
            return True
        return member not in self._cleared.get(record.queue, ()) and self._possible.may_hold(member, record.queue)

    def _surely_gone(self, record: Record, sweep: Sweep) -> frozenset[str]:
        """Return whose line was closed in two sweeps; without a lock, somebody might have come back in between."""
        if not record.maybe_held:
            return frozenset()
        return sweep.phantoms.get(record.queue, frozenset()) & sweep.closed

    def _counting(self, record: Record, members: Iterable[str], listed: frozenset[str]) -> frozenset[str]:
        """Return who of these is to be waited for: those still on the list, and foreign ones for a while."""
        is_over = self._board.now_ms - record.since_ms >= self._times.foreign_wait_ms
        return frozenset(member for member in members if member in listed and (is_ours(member) or not is_over))

    def _give_up(self, broker: str, found: Questions) -> None:
        sweep, found.sweep = found.sweep, None
        self._touched[broker] = found
        for queue, whom in () if sweep is None else sweep.asked.items():
            record = self._board.records.get(queue)
            if record is not None and _waits(record):
                self._board.see(record, Seen.PEER_SILENT, whom)

    def cut(self, broker: str) -> None:
        """Forget what was asked on a line that is gone."""
        self._possible.unlisted(broker)
        self._rounds.pop(broker, None)
        self._touched.pop(broker, None)


def _waits(record: Record) -> bool:
    return record.state is State.ASKING or (record.state is State.UNSURE and record.step is Step.HOLDERS)
