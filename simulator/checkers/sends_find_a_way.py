"""A send fails only if no broker could accept it: another one is tried, and a healthy one is among them.

Judged for messages that may go to any queue of their topic, while one of the brokers that accepted messages of this
sender and topic before has a fault: if none has, the sender itself is at fault, and a broker that it never sent to may
not be known to it. Excused: every such broker had a recent fault, or its connection to the sender, or the sender
itself; a name server died, so that the sender may not know the route.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions
from simulator.checkers.trackers import FAULT_EFFECT_MS, NEVER_MS, TRACKED_FACTS, FaultTracker
from simulator.facts import Fact, MessageAcked, MessageSent, ProcessGone, ProcessStarted, SendGivenUp


class SendsFindAWay(Checker):
    """One failing broker does not stop a sender."""

    name = "sends find a way"
    fact_types = (*TRACKED_FACTS, MessageSent, MessageAcked, SendGivenUp)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._sent: dict[str, MessageSent] = {}
        self._senders: dict[str, str] = {}
        """The sender of each message."""
        self._brokers: dict[tuple[str, str], dict[str, int]] = {}
        """By sender and topic: brokers that accepted messages, and since when."""
        self._nameless_ms = NEVER_MS
        """When a name server died, or was still dead."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Remember what may go anywhere, and check each failure."""
        if isinstance(fact, MessageSent):
            self._senders[fact.uid] = fact.producer
            if fact.key is None and not fact.transactional:
                self._sent[fact.uid] = fact
        elif isinstance(fact, MessageAcked):
            if fact.queue is not None:
                place = self._senders.get(fact.uid, ""), fact.queue.topic
                self._brokers.setdefault(place, {}).setdefault(fact.queue.broker, fact.at_ms)
        elif isinstance(fact, SendGivenUp):
            return list(self._failed(fact))
        else:
            self._tracker.observe(fact)
            if isinstance(fact, ProcessGone | ProcessStarted) and self._is_name_server(fact):
                self._nameless_ms = fact.at_ms
        return ()

    def _is_name_server(self, fact: ProcessGone | ProcessStarted) -> bool:
        if isinstance(fact, ProcessStarted):
            return fact.kind == "nameserver"
        is_broker = any(fact.name in brokers for brokers in self._brokers.values())
        return not is_broker and fact.name not in self._tracker.members

    def _failed(self, fact: SendGivenUp) -> Iterator[CheckerFinding]:
        sent = self._sent.get(fact.uid)
        if sent is None or self._nameless_ms >= sent.at_ms - FAULT_EFFECT_MS:
            return
        calm_ms = sent.at_ms - FAULT_EFFECT_MS
        known = self._brokers.get((sent.producer, sent.topic), {})
        brokers = [name for name, since_ms in known.items() if since_ms < sent.at_ms]
        well = [name for name in brokers if self._tracker.pair_fault_ms(sent.producer, name, fact.at_ms) < calm_ms]
        if well and len(well) < len(brokers):
            sentence = (
                f"{sent.producer} gave up {fact.uid} at {fact.at_ms} ms, {fact.at_ms - sent.at_ms} ms after it began, "
                f"and {', '.join(well)} would have accepted it"
            )
            yield self.finding("liveness", "log", fact.at_ms, sentence, sent, fact)
