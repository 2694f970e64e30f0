"""Members handle only what was sent, and only topics they subscribed to; no log has a message that was never sent.

There is no excuse.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.facts import Fact, HandlerStarted, MessageSent, ProcessStarted
from steelyard.model.reserved_names import HALF_OP_TOPIC, REBALANCE_HISTORY_TOPIC

_OWN_TOPICS = (HALF_OP_TOPIC, REBALANCE_HISTORY_TOPIC)
"""Topics that a broker itself writes to."""


class NothingUnexpected(Checker):
    """What is handled was sent, to a subscribed topic."""

    name = "nothing unexpected"
    fact_types = (MessageSent, HandlerStarted, ProcessStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._topics: dict[str, str] = {}
        self._wanted: dict[str, frozenset[str]] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what was sent, and check each start."""
        if isinstance(fact, HandlerStarted):
            return self._started(fact)
        if isinstance(fact, MessageSent):
            self._topics[fact.uid] = fact.topic
        elif isinstance(fact, ProcessStarted):
            self._wanted[fact.member] = frozenset((*fact.topics, f"%RETRY%{fact.group}"))
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Search the logs for messages that were never sent."""
        for logged in end.logged:
            if logged.uid and logged.uid not in self._topics and logged.queue.topic not in _OWN_TOPICS:
                sentence = f"offset {logged.offset} of {logged.queue} holds {logged.uid}, which was never sent"
                yield self.finding("safety", "log", end.at_ms, sentence, logged)

    def _started(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        topic, wanted = self._topics.get(fact.uid), self._wanted.get(fact.member)
        if topic is None:
            why = "which was never sent"
        elif wanted is not None and (fact.queue.topic not in wanted or topic not in wanted):
            why = f"which was sent to {topic}, and it did not subscribe to that"
        else:
            return ()
        where = f"{fact.queue}, offset {fact.offset}"
        sentence = f"{fact.member} started {fact.uid} ({where}) at {fact.at_ms} ms, {why}"
        return (self.finding("safety", "delivery", fact.at_ms, sentence, fact),)
