"""Nobody handles what nobody sent, nor what its topic is not for; and no log has a message from nowhere.

There is no excuse.
"""

from collections.abc import Iterable, Iterator

from steelyard.model.names import MOVES_TOPIC, OP_TOPIC
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.facts import Fact, Joined, Sent, Started

__all__ = ["NothingUnexpected"]

_OWN_TOPICS = (OP_TOPIC, MOVES_TOPIC)
"""Where a broker writes what nobody sent."""


class NothingUnexpected(Checker):
    """What is handled was sent, to a topic that is wanted."""

    name = "nothing unexpected"
    wants = (Sent, Started, Joined)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._topics: dict[str, str] = {}
        self._wanted: dict[str, frozenset[str]] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what was sent, and judge each start."""
        if isinstance(fact, Started):
            return self._started(fact)
        if isinstance(fact, Sent):
            self._topics[fact.uid] = fact.topic
        elif isinstance(fact, Joined):
            self._wanted[fact.member] = frozenset((*fact.topics, f"%RETRY%{fact.group}"))
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Look for messages from nowhere in the logs."""
        for logged in end.logged:
            if logged.uid and logged.uid not in self._topics and logged.queue.topic not in _OWN_TOPICS:
                sentence = f"offset {logged.offset} of {logged.queue} holds {logged.uid}, which nobody sent"
                yield self.finding("safety", "log", end.at_ms, sentence, logged)

    def _started(self, fact: Started) -> Iterable[Finding]:
        topic, wanted = self._topics.get(fact.uid), self._wanted.get(fact.member)
        if topic is None:
            why = "which nobody sent"
        elif wanted is not None and (fact.queue.topic not in wanted or topic not in wanted):
            why = f"which was sent to {topic} and does not want it"
        else:
            return ()
        where = f"{fact.queue}, offset {fact.offset}"
        sentence = f"{fact.member} started {fact.uid} ({where}) at {fact.at_ms} ms, {why}"
        return (self.finding("safety", "delivery", fact.at_ms, sentence, fact),)
