"""A member at size: a round, with the lists of all brokers in and a plan out; and taking and giving up what is planned.

CPU time. A round is the best of a few runs, beside the sharing out alone, which is a part of it; in every run a member
has just left or come back, so nothing is saved by remembering. Taking is from the plan to the first pull of each queue,
giving up from the wish to leave to the goodbye, with every request answered at once. Twice the size may take little
more than twice the time.
"""

from collections.abc import Callable
from functools import partial
from time import process_time

from msgspec.structs import replace

from bench.instant_host import InstantHost
from bench.table import Row
from steelyard.balance.assignors import AssignmentPlan, Sticky, plan
from steelyard.balance.group.actions import Action, QueryMemberList
from steelyard.balance.group.events import (
    ConnectionOpened,
    Event,
    HeartbeatAcknowledged,
    MemberFacts,
    MemberListReceived,
    MembersChanged,
    RouteReceived,
    Tick,
)
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.model import Queue, Subscription

_BROKERS = 10
_GROUP, _TOPIC = "bench", "orders"
_GOAL_S = 0.1
_LINEAR = 3.0
"""What twice the size may cost: a little more than twice the time, as more memory is slower memory."""


def run() -> list[Row]:
    """Measure everything; takes a few seconds."""
    return [*_round_rows(), *_taking_rows()]


def _taking_rows() -> list[Row]:
    rows: list[Row] = []
    half_s: tuple[float, ...] = ()
    for queues in (10_000, 20_000, 40_000):
        start = process_time()
        host = InstantHost(queues)
        taking_s = process_time() - start
        ours_s = taking_s, _cpu_s(host.leave)
        for at, what in enumerate(("takes", "gives up")):
            name = f"a member {what} {queues:,} queues"
            if half_s:
                rows.append(_row(name, ours_s[at], "half as many", half_s[at], goal_s=_LINEAR * half_s[at]))
            else:
                rows.append(_row(name, ours_s[at], "a second for 20,000", queues / 20_000, goal_s=queues / 20_000))
        half_s = ours_s
    return rows


def _round_rows() -> list[Row]:
    rows: list[Row] = []
    half_s = 0.0
    for grown in (1, 2, 4):
        crowd = _Crowd(10_000 * grown, 1_000 * grown)
        ours_s = crowd.round_s()
        what = f"member round of {len(crowd.queues):,} queues x {len(crowd.members):,} members"
        rows.append(_row(what, ours_s, "sharing out alone", crowd.sharing_s(), goal_s=_GOAL_S * grown))
        if half_s:
            rows.append(_row("… and twice the size", ours_s, "half the size", half_s, goal_s=_LINEAR * half_s))
        half_s = ours_s
    return rows


class _Crowd:
    """A group of many members: one of them as it is, and what brokers say of the others."""

    def __init__(self, queues: int, members: int) -> None:
        self.members = [f"10.0.{n // 256}.{n % 256}@{n}@sy1" for n in range(members)]
        self.brokers = [f"broker-{number}" for number in range(_BROKERS)]
        self.queues = [Queue(_TOPIC, name, number) for name in self.brokers for number in range(queues // _BROKERS)]
        self._shared = self._share(self.members, {})
        options = MemberOptions(_GROUP, self.members[-1], {_TOPIC: Subscription(_TOPIC)})
        self._sessions = BrokerSessions(options)
        self._views = Rebalancer(options, self._sessions)
        self._now_ms = 0
        self._receive(Tick())
        self._receive(RouteReceived(options.retry_topic, ()))
        self._receive(RouteReceived(_TOPIC, tuple(self.queues)))
        for name in self.brokers:
            self._receive(ConnectionOpened(name))
            asked = self._receive(HeartbeatAcknowledged(name, is_steelyard=True, heartbeat_ms=3_000))
        self._answer(asked, self._lists(self.members))

    def round_s(self) -> float:
        """Time rounds from the notice to the plan, and return the shortest."""
        times_s = []
        for number in range(6):
            self._now_ms += 1_000
            lists, rounds = self._lists(self.members[1 - number % 2 :]), self._views.timer.count
            times_s.append(_cpu_s(partial(self._collect, lists)))
            assert self._views.timer.count == rounds + 1
            assert len(self._views.assignment.members) == len(self.members) - 1 + number % 2
        return min(times_s)

    def _collect(self, lists: dict[str, MemberListReceived]) -> None:
        self._answer(self._receive(MembersChanged("broker-0")), lists)

    def sharing_s(self) -> float:
        """Time the part of it that decides who gets what after a member left."""
        return min(_cpu_s(lambda: self._share(self.members[1:], self._shared)) for _ in range(3))

    def _share(self, members: list[str], before: AssignmentPlan) -> AssignmentPlan:
        return plan(Sticky(), _GROUP, self.queues, members, previous=before)

    def _lists(self, members: list[str]) -> dict[str, MemberListReceived]:
        owners = {queue: member for member in members for queue in self._shared[member]}
        facts = tuple(MemberFacts(name, is_steelyard=True, strategy="STICKY", topics=(_TOPIC,)) for name in members)
        return {
            name: MemberListReceived(
                name,
                tuple(members),
                is_settled=True,
                members=facts,
                owners={queue: member for queue, member in owners.items() if queue.broker == name},
                queue_counts={_TOPIC: len(self.queues) // _BROKERS},
            )
            for name in self.brokers
        }

    def _receive(self, event: Event) -> list[Action]:
        return self._sessions.step(event, self._now_ms) + self._views.step(event, self._now_ms)

    def _answer(self, asked: list[Action], lists: dict[str, MemberListReceived]) -> None:
        for action in asked:
            if isinstance(action, QueryMemberList):
                self._receive(replace(lists[action.broker], request_id=action.request_id))


def _cpu_s(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def _row(what: str, ours_s: float, other: str, beside_s: float, *, goal_s: float) -> Row:
    return Row(
        what,
        _ms(ours_s),
        f"{other}: {_ms(beside_s)}",
        f"{beside_s / ours_s:.2f}x",
        f"≤ {_ms(goal_s)}",
        ours_s <= goal_s,
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"
