"""A send fails only if no broker could take it: another one is tried, and one that is well is among them.

Judged for messages that may go to any queue of their topic. Excused: every broker was in trouble lately, or its line to
the sender was, or the sender itself; a name server was, so that the sender may not know where to send. Every topic of a
history is on every broker.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steelyard.sim.checkers.checker import Checker, Finding, Terms
from steelyard.sim.checkers.scene import LASTING_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Joined, SendFailed, Sent

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SendsFindAWay"]


class SendsFindAWay(Checker):
    """One broker that fails does not stop a sender."""

    name = "sends find a way"
    wants = (*SCENE, Sent, SendFailed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._sent: dict[str, Sent] = {}
        self._servers: dict[str, str] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Remember what may go anywhere, and judge each failure."""
        if isinstance(fact, Sent):
            if fact.key is None and not fact.transactional:
                self._sent[fact.uid] = fact
        elif isinstance(fact, SendFailed):
            return list(self._failed(fact))
        else:
            self._scene.note(fact)
            if isinstance(fact, Joined) and fact.kind in ("broker", "nameserver"):
                self._servers[fact.member] = fact.kind
        return ()

    def _failed(self, fact: SendFailed) -> "Iterator[Finding]":
        sent = self._sent.get(fact.uid)
        if sent is None:
            return
        calm_ms = sent.at_ms - LASTING_MS
        well = [name for name in self._servers if self._scene.troubled_ms(sent.producer, name, fact.at_ms) < calm_ms]
        brokers = [name for name in well if self._servers[name] == "broker"]
        if not brokers or any(kind != "broker" and name not in well for name, kind in self._servers.items()):
            return
        sentence = (
            f"{sent.producer} gave {fact.uid} up at {fact.at_ms} ms, {fact.at_ms - sent.at_ms} ms after it began, and "
            f"{', '.join(brokers)} would have taken it"
        )
        yield self.finding("liveness", "log", fact.at_ms, sentence, sent, fact)
