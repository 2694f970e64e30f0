"""A send fails only if no broker could take it: another one is tried, and one that is well is among them.

Judged for messages that may go to any queue of their topic, while one of the brokers that had taken some of it of this
sender before is in trouble: what all of them refuse is the sender's own fault, and one that it never sent to it may not
know yet. Excused: every such broker was in trouble lately, or its line to the sender was, or the sender itself; a name
server died, so that the sender may not know where to send.
"""

from collections.abc import Iterable, Iterator

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import LASTING_MS, NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Acked, Fact, Gone, Joined, SendFailed, Sent

__all__ = ["SendsFindAWay"]


class SendsFindAWay(Checker):
    """One broker that fails does not stop a sender."""

    name = "sends find a way"
    wants = (*SCENE, Sent, Acked, SendFailed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._sent: dict[str, Sent] = {}
        self._senders: dict[str, str] = {}
        """Who sent a message."""
        self._brokers: dict[tuple[str, str], dict[str, int]] = {}
        """By sender and topic: who has taken some of it, and since when."""
        self._nameless_ms = NEVER_MS
        """When a name server died, or was still dead."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what may go anywhere, and judge each failure."""
        if isinstance(fact, Sent):
            self._senders[fact.uid] = fact.producer
            if fact.key is None and not fact.transactional:
                self._sent[fact.uid] = fact
        elif isinstance(fact, Acked):
            if fact.queue is not None:
                place = self._senders.get(fact.uid, ""), fact.queue.topic
                self._brokers.setdefault(place, {}).setdefault(fact.queue.broker, fact.at_ms)
        elif isinstance(fact, SendFailed):
            return list(self._failed(fact))
        else:
            self._scene.note(fact)
            if isinstance(fact, Gone | Joined) and self._is_name_server(fact):
                self._nameless_ms = fact.at_ms
        return ()

    def _is_name_server(self, fact: Gone | Joined) -> bool:
        if isinstance(fact, Joined):
            return fact.kind == "nameserver"
        is_broker = any(fact.name in brokers for brokers in self._brokers.values())
        return not is_broker and fact.name not in self._scene.members

    def _failed(self, fact: SendFailed) -> Iterator[Finding]:
        sent = self._sent.get(fact.uid)
        if sent is None or self._nameless_ms >= sent.at_ms - LASTING_MS:
            return
        calm_ms = sent.at_ms - LASTING_MS
        known = self._brokers.get((sent.producer, sent.topic), {})
        brokers = [name for name, since_ms in known.items() if since_ms < sent.at_ms]
        well = [name for name in brokers if self._scene.troubled_ms(sent.producer, name, fact.at_ms) < calm_ms]
        if well and len(well) < len(brokers):
            sentence = (
                f"{sent.producer} gave {fact.uid} up at {fact.at_ms} ms, {fact.at_ms - sent.at_ms} ms after it began, "
                f"and {', '.join(well)} would have taken it"
            )
            yield self.finding("liveness", "log", fact.at_ms, sentence, sent, fact)
