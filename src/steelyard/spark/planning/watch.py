"""What is known of queues while a stream runs: asked again now and then, and kept while nobody answers.

Spark asks a source for its ends about 90 times a second when nothing happens, so what brokers said counts for a moment.
Rules: a broker that does not answer keeps the ends that it had, is named once in the log, and is asked less and less
often, because the whole query waits for its answer; a topic that no name server tells of is not gone as long as none of
its brokers says so. What a replica says while there is no master may be late, and is marked so.

Left out: what it means for a query that queues came or are gone (backlog.py).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic_ns, sleep

from steelyard.client.nearest import missing_topic
from steelyard.errors import SteelyardError, TopicNotFound
from steelyard.model import Queue, in_order
from steelyard.spark.planning.asking import Asking
from steelyard.spark.planning.layout import Layout
from steelyard.spark.planning.slices import PAUSES_S
from steelyard.spark.planning.spans import Span, Spans

__all__ = ["Seen", "Watch"]

_LAYOUT_MS = 5_000
"""How often name servers are asked for queues that came or went."""
_REST_AFTER_ASKING = 5
"""So many times as long as it took to ask brokers, they are not asked again."""
_REST_MS = 500
_LONGEST_REST_MS = 15_000

_log = logging.getLogger("steelyard")


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of queues."""

    spans: Mapping[Queue, Span]
    """As far as brokers ever said."""
    gone: frozenset[Queue] = frozenset()
    """Those that are there no more."""
    turn: int = 0
    """Counts up whenever something changes."""
    late: frozenset[str] = frozenset()
    """Brokers that a replica speaks for: their queues may have more than they are said to."""


@dataclass(slots=True)
class _Resting:
    """A broker that does not answer."""

    until_ms: int
    rest_ms: int


class Watch:
    """Looks after the queues of one stream."""

    def __init__(self, asking: Asking, poll_ms: int) -> None:
        self._asking = asking
        self._poll_ms = poll_ms
        self._queues: tuple[Queue, ...] = ()
        self._shrunk: frozenset[Queue] = frozenset()
        self._ask_after_ms = 0
        self._look_after_ms = 0
        self._resting: dict[str, _Resting] = {}
        self._is_told = False
        self.is_new = True
        """Whether `begin` is still to come."""
        self.seen = Seen({})
        """The last look."""

    def knows(self, spans: Mapping[Queue, Span]) -> None:
        """Take what was asked already, at the start of a query."""
        self._queues = tuple(in_order({*self._queues, *spans}))
        self.seen = replace(self.seen, spans={**self.seen.spans, **spans}, turn=self.seen.turn + 1)

    def look(self) -> Seen:
        """Return what is known, asked again if it is old; this never raises, and goes on with what was known."""
        if _now_ms() >= self._ask_after_ms:
            if _now_ms() >= self._look_after_ms:
                self._look_for_queues()
            self._ask()
        return self.seen

    def begin(self, started: Iterable[Queue], *, must_be: bool) -> Seen:
        """Look for the first time; ``started`` are queues that a checkpoint tells of.

        Topics that were named have to be there, and brokers have to answer, or they are waited for some seconds. A
        topic that is missing then is an error, unless the checkpoint tells of it and ``must_be`` is False.
        """
        started = frozenset(started)
        for pause_s in (*PAUSES_S, None):
            layout = self._asking.layout()
            self._lay_out(layout, {*self._queues, *started})
            self._ask(everybody=True)
            missing = self._missing(layout, started, must_be=must_be)
            if not (missing or self._resting) or pause_s is None:
                break
            sleep(pause_s)
        if missing:
            raise missing[0]
        self._look_after_ms = _now_ms() + _LAYOUT_MS
        self.is_new = False
        return self.seen

    # -- queues -------------------------------------------------------------------------------------------------------

    def _missing(self, layout: Layout, started: frozenset[Queue], *, must_be: bool) -> list[TopicNotFound]:
        known = {queue.topic for queue in started}
        missing = dict(layout.missing)
        for topic in known - layout.brokers.keys() - missing.keys():
            missing[topic] = missing_topic(topic, layout.brokers, where="the name servers")
        return [error for topic, error in missing.items() if must_be or topic not in known]

    def _look_for_queues(self) -> None:
        try:
            layout = self._asking.layout()
        except SteelyardError as error:
            if not self._is_told:
                self._is_told = True
                _log.warning("queues that come or go are not seen for now: %s", error)
            self._look_after_ms = _now_ms() + _LONGEST_REST_MS
            return
        self._is_told = False
        self._look_after_ms = _now_ms() + _LAYOUT_MS
        self._lay_out(layout, set(self._queues))

    def _lay_out(self, layout: Layout, before: set[Queue]) -> None:
        """Take the queues that there are, and keep those whose broker or topic may be only away."""
        here = set(layout.queues)
        left = before - here
        self._shrunk = frozenset(queue for queue in left if queue.broker in layout.brokers.get(queue.topic, ()))
        self._queues = tuple(in_order(here | (left - self._shrunk)))

    # -- brokers ------------------------------------------------------------------------------------------------------

    def _ask(self, *, everybody: bool = False) -> None:
        began_ms = _now_ms()
        awake = [queue for queue in self._queues if everybody or not self._rests(queue.broker, began_ms)]
        if awake:
            self._note(self._asking.spans(awake))
        # With very many queues asking takes a while; a stream has more to do than that, and so have brokers.
        took_ms = _now_ms() - began_ms
        self._ask_after_ms = _now_ms() + max(self._poll_ms, _REST_AFTER_ASKING * took_ms if self._poll_ms else 0)

    def _rests(self, broker: str, now_ms: int) -> bool:
        resting = self._resting.get(broker)
        return resting is not None and now_ms < resting.until_ms

    def _note(self, spans: Spans) -> None:
        for broker, error in spans.silent.items():
            self._rest(broker, error)
        for broker in {queue.broker for queue in spans.found} - spans.silent.keys():
            if self._resting.pop(broker, None) is not None:
                _log.warning("broker %s answers again", broker)
        now = Seen(
            {**self.seen.spans, **spans.found},
            frozenset((self.seen.gone | spans.gone | self._shrunk) - spans.found.keys()),
            self.seen.turn,
            (self.seen.late - {queue.broker for queue in spans.found}) | spans.replicas,
        )
        if now != self.seen:
            self.seen = replace(now, turn=now.turn + 1)

    def _rest(self, broker: str, error: SteelyardError) -> None:
        resting = self._resting.get(broker)
        if resting is None:
            _log.warning("broker %s does not answer: the query goes on without news of it (%s)", broker, error.what)
            resting = self._resting[broker] = _Resting(0, _REST_MS // 2)
        resting.rest_ms = min(2 * resting.rest_ms, _LONGEST_REST_MS)
        resting.until_ms = _now_ms() + resting.rest_ms


def _now_ms() -> int:
    return monotonic_ns() // 1_000_000
