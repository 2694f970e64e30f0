"""Claimed queues: what each member holds, reported by itself (307), where no broker knows the owners.

A sticky plan starts from these claims. Each rebalance probes the peers, a few at a time, since each probe blocks a
thread of the broker that passes it on. A member that does not answer is *unresponsive*: it is believed to hold what it
last reported, and gets no more queues. After two missed probes a rebalance no longer waits for it; it is probed in the
background, seldom and with a long timeout, since it may only be slow. If it probes us, it is probed again at once, and
it counts as responsive: it is alive, and only our probes do not reach it. If it never answered us, peers tell what it
last reported, so that all members plan from the same claims.

Left out: the probes of a member that acquires a queue, which must be certain (ownership_probe.py; their ids are odd).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from steelyard.balance.assignors.strategy import OwnedQueues
from steelyard.balance.group.actions import Action, ProbeOwnership
from steelyard.balance.group.events import OwnershipProbeFailed, OwnershipReported
from steelyard.model import Queue, sort_queues

_MAX_CONCURRENT_QUERIES = 4
_MAX_MISSED = 2
"""After this many missed probes a member is probed in the background."""


class KnownOwners(NamedTuple):
    """The owners at the end of a rebalance."""

    owned_by_member: OwnedQueues | None
    """What each member holds, or last reported; None if that cannot be known."""
    unresponsive: frozenset[str] = frozenset()
    """Members that did not answer the last probe, or never reported."""
    repeatedly_unresponsive: tuple[str, ...] = ()
    """Members that missed several probes in a row, in order."""


class PeerClaims:
    """What peers reported of themselves."""

    def __init__(self, background_ms: int) -> None:
        self._background_ms = background_ms
        """Between two background probes of a member."""
        self._held_by_member: dict[str, frozenset[Queue]] = {}
        self._missed: dict[str, int] = {}
        """Probes in a row that each member missed; members that answered the last one are not in it."""
        self._background_asked_ms: dict[str, int] = {}
        """Members that are probed in the background, and when each was last probed."""
        self._to_query: list[tuple[str, str]] = []
        """Members to probe and the broker for each; the next one is the last."""
        self._pending: dict[str, tuple[str, int]] = {}
        """Members whose answer is awaited, each with its broker and request id."""
        self._background_query: tuple[str, str, int] | None = None
        """The member that is being probed in the background, with its broker and request id."""
        self._asked_us_ms: dict[str, int] = {}
        self._reported_by_peers: dict[str, Mapping[str, tuple[Queue, ...]]] = {}
        """What each member last reported of those that do not answer it."""
        self._request_id = 0

    @property
    def is_done(self) -> bool:
        """Whether every awaited member has answered, or will not."""
        return not self._pending and not self._to_query

    def unresponsive(self, members: Iterable[str], since_ms: int) -> frozenset[str]:
        """Return which of these members did not answer the last probe, and have not probed us since ``since_ms``."""
        silent = (member for member in members if member in self._missed or member not in self._held_by_member)
        return frozenset(member for member in silent if self._asked_us_ms.get(member, since_ms) <= since_ms)

    def record_question(self, member: str, now_ms: int) -> None:
        """Record that a member probed us."""
        self._asked_us_ms[member] = now_ms

    def is_responsive_again(self, member: str, now_ms: int) -> bool:
        """Say whether a member probes us that does not answer; then the next rebalance probes it."""
        if member not in self._missed or member not in self._background_asked_ms or self._background_query is not None:
            return False
        self._background_asked_ms[member] = now_ms - self._background_ms
        return True

    def repeatedly_unresponsive(self, members: Iterable[str]) -> tuple[str, ...]:
        """Return which of these members missed several probes in a row, in order."""
        return tuple(member for member in members if self._missed.get(member, 0) >= _MAX_MISSED)

    def held_by_member(self) -> Mapping[str, Iterable[Queue]]:
        """Return what each member held when it last answered us, or by the first peer that knows it."""
        told: dict[str, Iterable[Queue]] = {}
        for teller in sorted(self._reported_by_peers, reverse=True):
            told.update(self._reported_by_peers[teller])
        return told | self._held_by_member

    def unresponsive_owners(self) -> dict[str, tuple[Queue, ...]]:
        """Return what unresponsive members held when they last answered."""
        return {
            member: tuple(sort_queues(self._held_by_member[member]))
            for member in self._missed
            if member in self._held_by_member
        }

    def start(self, peers: Mapping[str, str], members: Iterable[str], request_id: int, now_ms: int) -> list[Action]:
        """Probe these peers, each through its broker, and forget all that are no longer members."""
        tables: list[dict[str, Any]] = [self._held_by_member, self._missed, self._reported_by_peers]
        members = frozenset(members)
        for table in (*tables, self._background_asked_ms, self._asked_us_ms):
            for member in table.keys() - members:
                del table[member]
        self._request_id = request_id
        self._pending.clear()
        self._to_query = [item for item in peers.items() if item[0] not in self._background_asked_ms]
        self._to_query.reverse()
        return self._query_more(now_ms) + self._query_in_background(peers, request_id, now_ms)

    def _query_in_background(self, peers: Mapping[str, str], request_id: int, now_ms: int) -> list[Action]:
        """Probe one member in the background: the one that was not probed for longest, if that is long enough."""
        waiting = [(at_ms, member) for member, at_ms in self._background_asked_ms.items() if member in peers]
        if self._background_query is not None or not waiting:
            return []
        at_ms, member = min(waiting)
        if now_ms - at_ms < self._background_ms:
            return []
        self._background_asked_ms[member] = now_ms
        self._background_query = (member, peers[member], request_id)
        return [ProbeOwnership(peers[member], member, request_id=request_id, is_background=True, asked_ms=now_ms)]

    def reported(self, event: OwnershipReported, now_ms: int, prompt_ms: int) -> tuple[list[Action], bool]:
        """Record an answer; return what to probe next, and whether a background answer is news."""
        member = event.member
        if self._pop_background(member, event.request_id):
            is_news = member in self._missed or self._held_by_member.get(member) != event.held
            self._record_report(event)
            if now_ms - self._background_asked_ms.get(member, now_ms) < prompt_ms:
                self._background_asked_ms.pop(member, None)
            return [], is_news
        if self._pop_pending(member, event.request_id):
            self._record_report(event)
            return self._query_more(now_ms), False
        return [], False

    def _record_report(self, event: OwnershipReported) -> None:
        self._missed.pop(event.member, None)
        self._held_by_member[event.member] = event.held
        self._reported_by_peers[event.member] = event.unresponsive

    def probe_failed(self, event: OwnershipProbeFailed, now_ms: int) -> list[Action]:
        """Record that a member did not answer, or that the broker does not know it any more."""
        member = event.member
        if self._pop_background(member, event.request_id):
            self._missed[member] = self._missed.get(member, 0) + 1
            return []
        if not self._pop_pending(member, event.request_id):
            return []
        if event.is_unknown:
            self._held_by_member.pop(member, None)
        else:
            self._missed[member] = self._missed.get(member, 0) + 1
            if self._missed[member] >= _MAX_MISSED:
                self._background_asked_ms[member] = now_ms - self._background_ms
        return self._query_more(now_ms)

    def connection_lost(self, broker: str, now_ms: int) -> list[Action]:
        """Drop the probes through a broker; they do not count as missed."""
        if self._background_query is not None and self._background_query[1] == broker:
            self._background_query = None
        self._pending = {member: asked for member, asked in self._pending.items() if asked[0] != broker}
        self._to_query = [each for each in self._to_query if each[1] != broker]
        return self._query_more(now_ms)

    def _pop_background(self, member: str, request_id: int) -> bool:
        if self._background_query is None or self._background_query[::2] != (member, request_id):
            return False
        self._background_query = None
        return True

    def _pop_pending(self, member: str, request_id: int) -> bool:
        if member not in self._pending or self._pending[member][1] != request_id:
            return False
        del self._pending[member]
        return True

    def _query_more(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        while self._to_query and len(self._pending) < _MAX_CONCURRENT_QUERIES:
            member, broker = self._to_query.pop()
            self._pending[member] = (broker, self._request_id)
            actions.append(ProbeOwnership(broker, member, request_id=self._request_id, asked_ms=now_ms))
        return actions


class ClaimedQueues(Struct, frozen=True):
    """What one member claims, in answer to a probe; each list is in order."""

    held: tuple[Queue, ...] = ()
    """From STARTING to COMMITTING: no other member may start them."""
    draining: tuple[Queue, ...] = ()
    """Those of them that are being given up."""
    acquiring: tuple[Queue, ...] = ()
    """Being acquired: their locks are held, and the peers are probed."""
    departed: Mapping[str, int] = {}
    """Members that departed, with the milliseconds since they were last listed."""
    unresponsive: Mapping[str, tuple[Queue, ...]] = {}
    """Members that do not answer us, with what they held when they last did."""
    may_hold: Mapping[str, tuple[Queue, ...]] = {}
    """Of the queues that the probe names, those that each other member may hold, where that is known."""
    stopped_queues: tuple[str, ...] = ()
    """Queues that stopped at an unreadable message, and why, in sentences."""
