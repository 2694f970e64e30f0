"""Ownership probes: ask the peers which queues they hold, where the broker grants no leases (Apache).

A *sweep* finds out whether a peer holds some queues of one broker. It starts after their locks were granted: it reads
the list of members, then probes each member on it through the broker, a few at a time, and also those that left the
list a moment ago. A listed member that does not answer counts as a holder until it is off the list. A foreign member
counts only for a short while, because it does not wait for us either. If our own id is not on the list, no peer would
probe us, so nothing is acquired. Not waited for are a member whose only connection is closed, once a second sweep under
the same lock has confirmed it (`StaleMembers`), and a silent member that cannot hold the queue by what we or a probed
peer know of it (`PossibleHolders`); in the latter case the lock is kept.

A *handover request* is the same probe, sent because a lock was denied for long: the peer rebalances, and releases locks
that it does not know of. On Apache a member that died while it acquired a queue leaves a lock behind that names no
owner; it is released in the name of every member that departed lately.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.balance.group import events
from steelyard.balance.group.actions import MAX_QUEUES_NAMED, ProbeOwnership, QueryMemberList
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.member_lists import StaleMembers
from steelyard.balance.group.options import is_steelyard_id
from steelyard.balance.group.process_queue import LockMode, ProcessQueue, ProofStep
from steelyard.balance.group.queue_locks import QueueLocks
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.model import Queue

_MAX_REPORTED = 64
"""In larger groups this is not reported: every member would send it to every other."""


@dataclass(slots=True)
class _OwnershipReport:
    """The last report of one member."""

    queues: frozenset[Queue]
    brokers: set[str]
    """Those that listed us when the member was probed."""
    asked_ms: int
    """When it was probed."""


class PossibleHolders:
    """What each member may hold that no longer answers.

    On an Apache broker, no member comes to hold a queue without probing every member on the broker's list. So a member
    that does not answer now can hold only what it held or was acquiring in its last report, and what it has probed us
    for since then, at brokers that have listed us since before that report. The time of a report is not known, but it
    is later than our probe: so we have to be listed by then, and whatever the member probes us for from then on counts.
    A member that came too late for a report may ask another one that has it, once it holds the lock of the queue.

    One gap is left: a member that acquires a queue by this rule does not need the answer of others, and we may be one
    of them. Therefore it keeps the broker's lock (`QueueTransitions.start_after_probe`).

    >>> known = PossibleHolders()
    >>> known.mark_listed("b", now_ms=0)
    >>> first, second, third = (Queue("t", "b", number) for number in range(3))
    >>> known.may_hold("c1", first)
    True
    >>> known.record_report("c1", [first], asked_ms=10)
    >>> known.record_question("c1", [second], now_ms=20)
    >>> [known.may_hold("c1", queue) for queue in (first, second, third)]
    [True, True, False]
    >>> known.queues_by_member([second, third])
    {'c1': (Queue(topic='t', broker='b', queue_id=1),)}
    >>> known.mark_unlisted("b")
    >>> known.may_hold("c1", third), known.queues_by_member([third])
    (True, {})
    """

    def __init__(self) -> None:
        self._listed_ms: dict[str, int] = {}
        """Brokers that list us, and since when."""
        self._reports: dict[str, _OwnershipReport] = {}
        self._questions: dict[str | None, dict[Queue, int]] = {}
        """What each member probed us for, and when; None: an unknown member."""
        self._unnamed_ms: dict[str | None, int] = {}
        """When a member probed us for more queues than a request can name."""

    @property
    def member_count(self) -> int:
        """The number of members of which something is known."""
        return max(len(self._reports), len(self._questions))

    def mark_listed(self, broker: str, now_ms: int) -> None:
        """Record that a broker lists us."""
        self._listed_ms.setdefault(broker, now_ms)

    def mark_unlisted(self, broker: str) -> None:
        """Record that a broker may not list us: members may acquire its queues without probing us."""
        self._listed_ms.pop(broker, None)
        for report in self._reports.values():
            report.brokers.discard(broker)

    def record_report(self, member: str, queues: Iterable[Queue], asked_ms: int) -> None:
        """Record what a member holds and acquires, by the report that was requested at ``asked_ms``."""
        known = self._reports.get(member)
        if known is not None and known.asked_ms > asked_ms:
            return
        brokers = {broker for broker, listed_ms in self._listed_ms.items() if listed_ms <= asked_ms}
        self._reports[member] = _OwnershipReport(frozenset(queues), brokers, asked_ms)
        questions = self._questions.get(member)
        if questions:
            self._questions[member] = {queue: at_ms for queue, at_ms in questions.items() if at_ms >= asked_ms}

    def record_question(self, member: str | None, queues: Iterable[Queue], now_ms: int) -> None:
        """Record that a member probed us for queues; None: an unknown member."""
        named = dict.fromkeys(queues, now_ms)
        self._questions.setdefault(member, {}).update(named)
        if len(named) >= MAX_QUEUES_NAMED:
            self._unnamed_ms[member] = now_ms

    def retain(self, members: Iterable[str]) -> None:
        """Forget all other members."""
        kept = {None, *members}
        self._reports = {member: report for member, report in self._reports.items() if member in kept}
        self._questions = {member: asked for member, asked in self._questions.items() if member in kept}
        self._unnamed_ms = {member: at_ms for member, at_ms in self._unnamed_ms.items() if member in kept}

    def may_hold(self, member: str, queue: Queue) -> bool:
        """Say whether a member may hold a queue, by all that is known of it."""
        report = self._reports.get(member)
        if report is None or not self._is_known(member, report, queue):
            return True
        return queue in report.queues or any(
            self._questions.get(who, {}).get(queue, report.asked_ms - 1) >= report.asked_ms for who in (member, None)
        )

    def _is_known(self, member: str, report: _OwnershipReport, queue: Queue) -> bool:
        is_vague = any(self._unnamed_ms.get(who, report.asked_ms - 1) >= report.asked_ms for who in (member, None))
        return queue.broker in report.brokers and not is_vague

    def queues_by_member(self, queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
        """Return which of these queues each member may hold, without members of which that is not known."""
        if not queues or len(self._reports) > _MAX_REPORTED:
            return {}
        return {
            member: tuple(queue for queue in queues if self.may_hold(member, queue))
            for member, report in self._reports.items()
            if all(self._is_known(member, report, queue) for queue in queues)
        }


_MAX_CONCURRENT_PROBES = 4
"""An Apache broker blocks one of 16 threads for each probe."""

_APACHE_LOCK_TTL_MS = 60_000
"""After this time an Apache broker has dropped the lock of a departed member."""

_MIN_TRACKED = 64
_MAX_DEPARTED = 10_000
"""A peer may report this many departed members and no more: it may be mistaken, or worse."""


@dataclass(slots=True, eq=False)
class _OwnershipSweep:
    """One search for the holders of some queues."""

    request_id: int
    peers_by_queue: dict[Queue, frozenset[str] | None]
    """The peers to probe for each queue; None: every member."""
    has_member_list: bool = False
    unanswered: int = 0
    holders: dict[Queue, set[str]] = field(default_factory=dict)
    acquirers: dict[Queue, set[str]] = field(default_factory=dict)
    silent: dict[Queue, set[str]] = field(default_factory=dict)
    listed_ids: tuple[str, ...] = ()
    """The list of members; a member with two connections is in it twice."""
    closed_connections: set[str] = field(default_factory=set)
    """Members whose connection is closed, by what the broker says."""
    unknown_members: set[str] = field(default_factory=set)
    """Members that the broker does not know: they are off the list in a moment, and need no kept lock."""
    stale_members: dict[Queue, frozenset[str]] = field(default_factory=dict)
    """Members with a closed connection in an earlier sweep under the same lock, and no other one since."""


@dataclass(slots=True, eq=False)
class _BrokerProbes:
    """The probes that go through one broker."""

    sweep: _OwnershipSweep | None = None
    to_sweep: dict[Queue, frozenset[str] | None] = field(default_factory=dict)
    waiting: deque[tuple[str, tuple[Queue, ...], _OwnershipSweep | None]] = field(default_factory=deque)
    pending: dict[int, tuple[str, tuple[Queue, ...], _OwnershipSweep | None]] = field(default_factory=dict)
    handover_requests: dict[Queue, str | None] = field(default_factory=dict)


class OwnershipProbe:
    """The probes of one member."""

    def __init__(self, context: MemberContext, apply: ApplyEvent, locks: QueueLocks) -> None:
        self._context = context
        self._apply = apply
        self._locks = locks
        self._own_id = context.options.id
        self._times = context.times
        self._by_broker: dict[str, _BrokerProbes] = {}
        self.dirty: dict[str, _BrokerProbes] = {}
        self._request_id = -1
        self._listed_ms: dict[str, int] = {}
        """When each member of the group was last listed."""
        self._stale_members: dict[Queue, StaleMembers] = {}
        """Of queues that are being acquired, where a member is suspected."""
        self._cleared_members: dict[Queue, set[str]] = {}
        """Members that cannot hold a queue that is being acquired, by what peers said under the same lock."""
        self._possible_holders = PossibleHolders()

    @property
    def is_idle(self) -> bool:
        """Whether no sweep is under way; handover requests do not count, since nothing depends on them."""
        return all(each.sweep is None for each in self._by_broker.values())

    def departed_members(self) -> dict[str, int]:
        """Return the members that departed lately, with the milliseconds since they were last listed."""
        now_ms = self._context.now_ms
        return {
            member: now_ms - seen_ms
            for member, seen_ms in sorted(self._listed_ms.items())
            if now_ms - seen_ms < _APACHE_LOCK_TTL_MS and self._has_departed(member)
        }

    def possible_holders(self, queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
        """Return which of these queues each peer may hold, where that is known: for a member that acquires them."""
        return self._possible_holders.queues_by_member(queues[:MAX_QUEUES_NAMED])

    def probe_queue(self, process_queue: ProcessQueue, members: frozenset[str] | None) -> None:
        """Probe these members for a queue, or every member, as a new lock requires."""
        probes = self._mark_dirty(process_queue.broker)
        if members is None:
            self._stale_members.pop(process_queue.queue, None)
            self._cleared_members.pop(process_queue.queue, None)
            if probes.sweep is not None:
                # These answers were requested under a lock that was lost since: a peer may hold the queue by now.
                probes.sweep.peers_by_queue.pop(process_queue.queue, None)
        probes.to_sweep[process_queue.queue] = members

    def request_handover(self, process_queue: ProcessQueue, holder: str | None) -> None:
        """Ask the holder of a queue to rebalance; if the holder is not known, ask every member."""
        now_ms, denied_ms = self._context.now_ms, process_queue.denied_since_ms
        if process_queue.handover_requested_ms is not None:
            due_ms = process_queue.handover_requested_ms + self._times.handover_request_again_ms
        else:
            due_ms = (now_ms if denied_ms is None else denied_ms) + self._times.handover_request_ms
        if now_ms < due_ms:
            return
        process_queue.handover_requested_ms = now_ms
        # Our own plan may be the outdated one, made while others carried out theirs.
        self._context.rebalancer.request_rebalance(now_ms)
        self._mark_dirty(process_queue.broker).handover_requests[process_queue.queue] = holder

    def _mark_dirty(self, broker: str) -> _BrokerProbes:
        probes = self._by_broker.get(broker)
        if probes is None:
            probes = self._by_broker[broker] = _BrokerProbes()
        self.dirty[broker] = probes
        return probes

    def flush(self) -> None:
        """Send every request that can be sent now."""
        while self.dirty:
            broker, probes = self.dirty.popitem()
            if self._context.sessions.is_registered(broker):
                self._start_sweep(broker, probes)
                self._send_handover_requests(broker, probes)
                self._send_next(broker, probes)

    def _start_sweep(self, broker: str, probes: _BrokerProbes) -> None:
        if probes.sweep is None and probes.to_sweep:
            probes.sweep = _OwnershipSweep(self._next_request_id(), probes.to_sweep)
            probes.to_sweep = {}
            self._context.emit(QueryMemberList(broker, probes.sweep.request_id))

    def _send_handover_requests(self, broker: str, probes: _BrokerProbes) -> None:
        if not probes.handover_requests:
            return
        by_holder: dict[str, list[Queue]] = {}
        everybody: tuple[str, ...] | None = None
        for queue, holder in probes.handover_requests.items():
            if holder:
                by_holder.setdefault(holder, []).append(queue)
                continue
            if everybody is None:
                everybody = self._context.rebalancer.listed_members(broker, self._context.now_ms)
            for member in everybody:
                by_holder.setdefault(member, []).append(queue)
        if self._locks.lock_mode(broker) is LockMode.PROBE:
            self._unlock_for_departed(broker, tuple(probes.handover_requests))
        probes.handover_requests.clear()
        busy = {member for member, _, sweep in (*probes.waiting, *probes.pending.values()) if sweep is None}
        for member, queues in by_holder.items():
            if member != self._own_id and is_steelyard_id(member) and member not in busy:
                probes.waiting.append((member, tuple(queues), None))

    def _unlock_for_departed(self, broker: str, queues: tuple[Queue, ...]) -> None:
        for member in self.departed_members():
            if is_steelyard_id(member) and member != self._own_id:
                self._locks.request_unlock_for(broker, member, queues)

    def _send_next(self, broker: str, probes: _BrokerProbes) -> None:
        while probes.waiting and len(probes.pending) < _MAX_CONCURRENT_PROBES:
            probe = probes.waiting.popleft()
            ticket = self._next_request_id()
            probes.pending[ticket] = probe
            self._context.emit(ProbeOwnership(broker, probe[0], probe[1], ticket, asked_ms=self._context.now_ms))

    def _next_request_id(self) -> int:
        self._request_id += 2
        return self._request_id

    def member_list_answered(self, event: events.MemberListReceived | events.MemberListFailed) -> None:
        """Start to probe the members of a list that a sweep requested."""
        if isinstance(event, events.MemberListReceived):
            self._record_listed(event.ids)
            if self._own_id in event.ids:
                self._possible_holders.mark_listed(event.broker, self._context.now_ms)
            else:
                self._possible_holders.mark_unlisted(event.broker)
        probes = self._by_broker.get(event.broker)
        sweep = None if probes is None else probes.sweep
        if probes is None or sweep is None or sweep.request_id != event.request_id or sweep.has_member_list:
            return
        sweep.has_member_list = True
        if isinstance(event, events.MemberListFailed) or self._own_id not in event.ids:
            self._sweep_failed(event.broker, probes)
            return
        self._confirm_stale(sweep, event.ids)
        for member in self._context.rebalancer.listed_members(event.broker, self._context.now_ms):
            if member == self._own_id:
                continue
            queues = tuple(queue for queue, whom in sweep.peers_by_queue.items() if whom is None or member in whom)
            if queues:
                sweep.unanswered += 1
                probes.waiting.append((member, queues, sweep))
        self.dirty[event.broker] = probes
        if not sweep.unanswered:
            self._conclude(event.broker, probes, sweep)

    def _confirm_stale(self, sweep: _OwnershipSweep, listed_ids: tuple[str, ...]) -> None:
        sweep.listed_ids = listed_ids
        now_ms, grace_ms = self._context.now_ms, self._times.departed_ms
        for queue in sweep.peers_by_queue if self._stale_members else ():
            if queue in self._stale_members:
                sweep.stale_members[queue] = self._stale_members[queue].confirm(listed_ids, now_ms, grace_ms)

    def _record_listed(self, members: tuple[str, ...]) -> None:
        now_ms = self._context.now_ms
        self._listed_ms.update(dict.fromkeys(members, now_ms))
        if max(len(self._listed_ms), self._possible_holders.member_count) > 2 * len(members) + _MIN_TRACKED:
            since_ms = now_ms - _APACHE_LOCK_TTL_MS
            self._listed_ms = {who: at_ms for who, at_ms in self._listed_ms.items() if at_ms > since_ms}
            self._possible_holders.retain(self._listed_ms)

    def ownership_answered(self, event: events.OwnershipReported | events.OwnershipProbeFailed) -> None:
        """Record the answer of one member, whatever it was probed for."""
        if isinstance(event, events.OwnershipReported):
            self._possible_holders.record_report(event.member, event.held | event.acquiring, event.asked_ms)
        probes = self._by_broker.get(event.broker)
        probe = None if probes is None else probes.pending.pop(event.request_id, None)
        if probes is None or probe is None:
            return
        self.dirty[event.broker] = probes
        member, queues, sweep = probe
        if isinstance(event, events.OwnershipReported):
            self._record_departed(event.departed)
        if sweep is None or probes.sweep is not sweep:
            return
        if isinstance(event, events.OwnershipReported) and event.may_hold:
            named = (queue for queue in queues[:MAX_QUEUES_NAMED] if queue in sweep.peers_by_queue)
            self._record_cleared(frozenset(named), event.may_hold)
        if isinstance(event, events.OwnershipProbeFailed) and event.is_unknown:
            sweep.unknown_members.add(member)
        for queue in queues:
            self._record_closed(queue, sweep, event)
            if isinstance(event, events.OwnershipProbeFailed):
                sweep.silent.setdefault(queue, set()).add(member)
            elif queue in event.held:
                sweep.holders.setdefault(queue, set()).add(member)
            elif queue in event.acquiring:
                sweep.acquirers.setdefault(queue, set()).add(member)
        sweep.unanswered -= 1
        if not sweep.unanswered:
            self._conclude(event.broker, probes, sweep)

    def handover_requested(self, event: events.HandoverRequested) -> None:
        """Record which queues a peer probes us for: it may be about to acquire them."""
        if event.waiting_for:
            self._possible_holders.record_question(event.member, event.waiting_for, self._context.now_ms)

    def _record_closed(
        self, queue: Queue, sweep: _OwnershipSweep, event: events.OwnershipReported | events.OwnershipProbeFailed
    ) -> None:
        if isinstance(event, events.OwnershipProbeFailed) and event.is_connection_closed:
            sweep.closed_connections.add(event.member)
            suspects = self._stale_members.setdefault(queue, StaleMembers())
            suspects.suspect(event.member, sweep.listed_ids, self._context.now_ms)
        elif queue in self._stale_members:
            self._stale_members[queue].clear(event.member)

    def _record_cleared(self, queues: frozenset[Queue], may_hold: Mapping[str, tuple[Queue, ...]]) -> None:
        """Record which members cannot hold these queues, by a peer that was probed after their locks were granted."""
        for member, possible in may_hold.items():
            for queue in queues.difference(possible):
                self._cleared_members.setdefault(queue, set()).add(member)

    def _record_departed(self, departed: Mapping[str, int]) -> None:
        for member, ago_ms in departed.items():
            if 0 <= ago_ms < _APACHE_LOCK_TTL_MS and len(self._listed_ms) < _MAX_DEPARTED:
                self._listed_ms.setdefault(member, self._context.now_ms - ago_ms)

    def _has_departed(self, member: str) -> bool:
        rebalancer, now_ms = self._context.rebalancer, self._context.now_ms
        if member in rebalancer.members() or member == self._own_id:
            return False
        was_listed_long_ago = now_ms - self._listed_ms[member] >= self._times.departed_ms * 2
        return rebalancer.has_departed(member, now_ms) or was_listed_long_ago

    def _conclude(self, broker: str, probes: _BrokerProbes, sweep: _OwnershipSweep) -> None:
        probes.sweep = None
        self.dirty[broker] = probes
        listed = frozenset(self._context.rebalancer.listed_members(broker, self._context.now_ms))
        for queue in sweep.peers_by_queue:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and _is_waiting_for_peers(process_queue):
                self._apply_result(process_queue, sweep, listed)

    def _apply_result(self, process_queue: ProcessQueue, sweep: _OwnershipSweep, listed: frozenset[str]) -> None:
        queue = process_queue.queue
        holders = self._still_counted(process_queue, sweep.holders.get(queue, ()), listed)
        silent = self._still_counted(process_queue, sweep.silent.get(queue, ()), listed)
        silent -= self._confirmed_stale(process_queue, sweep)
        if holders or (process_queue.state is QueueState.UNSURE and queue in sweep.acquirers):
            self._apply(process_queue, QueueEvent.PEER_HOLDS, holders | silent)
        elif any(member in sweep.unknown_members or self._may_hold(member, process_queue) for member in silent):
            self._apply(process_queue, QueueEvent.PEER_SILENT, silent)
        else:
            self._apply(process_queue, QueueEvent.NO_PEER_HOLDS, bool(silent))

    def _may_hold(self, member: str, process_queue: ProcessQueue) -> bool:
        """Say whether a silent member may hold a queue; without a lock, it might be acquiring it by the same rule."""
        if not process_queue.may_hold_lock or not is_steelyard_id(member):
            return True
        is_cleared = member in self._cleared_members.get(process_queue.queue, ())
        return not is_cleared and self._possible_holders.may_hold(member, process_queue.queue)

    def _confirmed_stale(self, process_queue: ProcessQueue, sweep: _OwnershipSweep) -> frozenset[str]:
        """Return members whose connection was closed in two sweeps, under the same lock."""
        if not process_queue.may_hold_lock:
            return frozenset()
        return sweep.stale_members.get(process_queue.queue, frozenset()) & sweep.closed_connections

    def _still_counted(
        self, process_queue: ProcessQueue, members: Iterable[str], listed: frozenset[str]
    ) -> frozenset[str]:
        """Return which of these members to wait for: those still listed, and foreign ones for a while."""
        is_over = self._context.now_ms - process_queue.state_since_ms >= self._times.foreign_wait_ms
        return frozenset(member for member in members if member in listed and (is_steelyard_id(member) or not is_over))

    def _sweep_failed(self, broker: str, probes: _BrokerProbes) -> None:
        sweep, probes.sweep = probes.sweep, None
        self.dirty[broker] = probes
        for queue, whom in () if sweep is None else sweep.peers_by_queue.items():
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and _is_waiting_for_peers(process_queue):
                self._apply(process_queue, QueueEvent.PEER_SILENT, whom)

    def connection_lost(self, broker: str) -> None:
        """Drop the probes of a lost connection."""
        self._possible_holders.mark_unlisted(broker)
        self._by_broker.pop(broker, None)
        self.dirty.pop(broker, None)


def _is_waiting_for_peers(process_queue: ProcessQueue) -> bool:
    return process_queue.state is QueueState.ASKING or (
        process_queue.state is QueueState.UNSURE and process_queue.proof_step is ProofStep.PEERS
    )
