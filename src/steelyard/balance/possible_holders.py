"""What a member of ours may hold that does not answer, where no broker keeps leases.

Nobody on Apache's broker comes to hold a queue without asking everybody on the broker's list about it. So a member
that does not answer now can hold no more than

- what it held or was taking when it last reported, and
- what it has asked us about since then,

of all brokers that had us on their list since before that report. When it was given nobody knows, but it was after we
asked for it: so we have to be on the list by then, and whatever the member asks us about from then on counts, though it
may come before the report.

Who came too late for a report, or was off the list meanwhile, may ask somebody else who knows, once it has the lock of
the queue: nobody can have come to hold it since.

One way around this is left: a member that takes a queue by this very rule does not need the answer of others, and we
may be one of them. Therefore who takes by this rule keeps the broker's lock (lives.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.balance.actions import MOST_WANTED
from steelyard.model import Queue

__all__ = ["PossibleHolders"]

_MOST_TOLD = 64
"""In larger groups nobody is told of all the others: it would be said by each to each."""


@dataclass(slots=True)
class _Report:
    """What one member said last."""

    queues: frozenset[Queue]
    brokers: set[str]
    """Those that listed us when the member was asked."""
    asked_ms: int
    """When it was asked."""


class PossibleHolders:
    """What is known of members, in case that they fall silent.

    >>> known = PossibleHolders()
    >>> known.listed("b", now_ms=0)
    >>> first, second, third = (Queue("t", "b", number) for number in range(3))
    >>> known.may_hold("c1", first)
    True
    >>> known.reported("c1", [first], asked_ms=10)
    >>> known.asked("c1", [second], now_ms=20)
    >>> [known.may_hold("c1", queue) for queue in (first, second, third)]
    [True, True, False]
    >>> known.of([second, third])
    {'c1': (Queue(topic='t', broker='b', queue_id=1),)}
    >>> known.unlisted("b")
    >>> known.may_hold("c1", third), known.of([third])
    (True, {})
    """

    def __init__(self) -> None:
        self._listed_ms: dict[str, int] = {}
        """The brokers that list us, each with the time since when."""
        self._reports: dict[str, _Report] = {}
        self._asked: dict[str | None, dict[Queue, int]] = {}
        """What each member asked us about, and when; None: somebody did."""
        self._vague_ms: dict[str | None, int] = {}
        """When members asked about more than they could name."""

    @property
    def members(self) -> int:
        """Of how many members something is known."""
        return max(len(self._reports), len(self._asked))

    def listed(self, broker: str, now_ms: int) -> None:
        """Take note that we are on a broker's list."""
        self._listed_ms.setdefault(broker, now_ms)

    def unlisted(self, broker: str) -> None:
        """Take note that we are not, or may not be: members may take its queues without asking us."""
        self._listed_ms.pop(broker, None)
        for report in self._reports.values():
            report.brokers.discard(broker)

    def reported(self, member: str, queues: Iterable[Queue], asked_ms: int) -> None:
        """Take a member's report: what it holds, and what it is taking; it was asked for it at a time."""
        known = self._reports.get(member)
        if known is not None and known.asked_ms > asked_ms:
            return
        brokers = {broker for broker, listed_ms in self._listed_ms.items() if listed_ms <= asked_ms}
        self._reports[member] = _Report(frozenset(queues), brokers, asked_ms)
        if member in self._asked:
            self._asked[member] = {queue: at_ms for queue, at_ms in self._asked[member].items() if at_ms >= asked_ms}

    def asked(self, member: str | None, queues: Iterable[Queue], now_ms: int) -> None:
        """Take note that a member asked us about queues; None: somebody did."""
        named = dict.fromkeys(queues, now_ms)
        self._asked.setdefault(member, {}).update(named)
        if len(named) >= MOST_WANTED:
            self._vague_ms[member] = now_ms

    def keep_only(self, members: Iterable[str]) -> None:
        """Forget all other members."""
        kept = {None, *members}
        self._reports = {member: report for member, report in self._reports.items() if member in kept}
        self._asked = {member: asked for member, asked in self._asked.items() if member in kept}
        self._vague_ms = {member: at_ms for member, at_ms in self._vague_ms.items() if member in kept}

    def may_hold(self, member: str, queue: Queue) -> bool:
        """Say whether a member may hold a queue, for all that is known of it."""
        report = self._reports.get(member)
        if report is None or not self._is_known(member, report, queue):
            return True
        return queue in report.queues or any(
            self._asked.get(who, {}).get(queue, report.asked_ms - 1) >= report.asked_ms for who in (member, None)
        )

    def _is_known(self, member: str, report: _Report, queue: Queue) -> bool:
        is_vague = any(self._vague_ms.get(who, report.asked_ms - 1) >= report.asked_ms for who in (member, None))
        return queue.broker in report.brokers and not is_vague

    def of(self, queues: Sequence[Queue]) -> dict[str, tuple[Queue, ...]]:
        """Return which of these queues each member may hold; members of which that is not known are left out."""
        if not queues or len(self._reports) > _MOST_TOLD:
            return {}
        return {
            member: tuple(queue for queue in queues if self.may_hold(member, queue))
            for member, report in self._reports.items()
            if all(self._is_known(member, report, queue) for queue in queues)
        }
