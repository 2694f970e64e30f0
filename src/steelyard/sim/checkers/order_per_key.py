"""In orderly groups the messages of a key are first started in the order in which their sender had them stored.

Order means: the later one was sent after the earlier one was acknowledged, by the same sender with the same key, and
both lie in one queue. Repeats do not count, nor messages that wait or are halves, nor what came back. It holds through
crashes and cuts: whoever takes over begins at or before what nobody has finished. Besides, one member has one handler
at a time in a queue. Excused: groups with a Java member; concurrent groups promise no order.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import SCENE, Scene
from steelyard.sim.facts import Acked, Ended, Fact, Gone, Sent, Started

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["OrderPerKey"]


class OrderPerKey(Checker):
    """What was stored first is started first."""

    name = "order per key"
    wants = (*SCENE, Sent, Acked, Started, Ended)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._sent: dict[str, Sent] = {}
        self._acked: dict[str, Acked] = {}
        self._first: set[tuple[str, str]] = set()
        self._latest: dict[tuple[str, str, str, Queue], tuple[Sent, Started]] = {}
        self._running: dict[tuple[str, str, Queue], Started] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what was sent and stored, and judge each first start."""
        if isinstance(fact, Started):
            if self._scene.mode(fact.group) != "orderly" or not self._scene.is_all_ours(fact.group):
                return ()
            return [*self._alone(fact), *self._in_order(fact)]
        if isinstance(fact, Ended):
            self._running.pop((fact.member, fact.group, fact.queue), None)
        elif isinstance(fact, Sent):
            if fact.key is not None and fact.due_ms is None and not fact.transactional:
                self._sent[fact.uid] = fact
        elif isinstance(fact, Acked):
            self._acked[fact.uid] = fact
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone):
                name = fact.name
                for key in [key for key in self._running if key[0] == name]:
                    del self._running[key]
        return ()

    def _alone(self, fact: Started) -> Iterable[Finding]:
        key = (fact.member, fact.group, fact.queue)
        running = self._running.get(key)
        self._running[key] = fact
        # A handler that outlived its drain may meet the first one of the next time the member owns the queue.
        if running is None or running.generation != fact.generation:
            return
        sentence = (
            f"{fact.member} started {fact.uid} (offset {fact.offset}) of {fact.queue} at {fact.at_ms} ms while it "
            f"still handled {running.uid} (offset {running.offset}), in order"
        )
        yield self.finding("safety", "delivery", fact.at_ms, sentence, running, fact)

    def _in_order(self, fact: Started) -> Iterable[Finding]:
        sent = self._sent.get(fact.uid)
        if sent is None or sent.key is None or fact.reconsume_times or (fact.group, fact.uid) in self._first:
            return
        self._first.add((fact.group, fact.uid))
        key = (fact.group, sent.producer, sent.key, fact.queue)
        latest = self._latest.get(key)
        if latest is None or latest[0].number < sent.number:
            self._latest[key] = (sent, fact)
            return
        acked = self._acked.get(fact.uid)
        if acked is None or acked.at_ms > latest[0].at_ms or acked.queue not in (None, fact.queue):
            return
        sentence = (
            f"{fact.member} first started {fact.uid} (number {sent.number} of {sent.producer}, key {sent.key}) at "
            f"{fact.at_ms} ms, after {latest[0].uid} (number {latest[0].number}) at {latest[1].at_ms} ms"
        )
        yield self.finding("safety", "delivery", fact.at_ms, sentence, latest[1], fact)
