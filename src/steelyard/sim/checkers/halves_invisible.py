"""A transactional message is not handled before its sender committed it, and never if it was rolled back.

What a sender decides is known when it is acknowledged or has failed, or by the situations ``a half message was
committed`` and ``a half message was rolled back`` with its ``uid``, told when the sender decides. Where only the
acknowledgement tells, it may reach the sender a little after the message reached a member. There is no excuse.
"""

from collections.abc import Iterable, Iterator

from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.facts import Acked, Fact, SendFailed, Sent, Situation, Started

__all__ = ["HalvesInvisible"]

_LATE_MS = 5_000
"""How long an acknowledgement may be under way."""

_COMMITTED, _ROLLED_BACK = "a half message was committed", "a half message was rolled back"
_HALF_TOPICS = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC")


class HalvesInvisible(Checker):
    """Halves are seen by nobody until they are whole."""

    name = "halves invisible"
    wants = (Sent, Acked, SendFailed, Situation, Started)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._halves: dict[str, Sent] = {}
        self._committed: set[str] = set()
        self._rolled_back: set[str] = set()
        self._seen: dict[str, Started] = {}
        """Halves that were started before anything was known."""

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow what becomes of each half."""
        if isinstance(fact, Started):
            return self._started(fact) if fact.uid in self._halves else ()
        if isinstance(fact, Sent):
            if fact.transactional:
                self._halves[fact.uid] = fact
        elif isinstance(fact, Acked):
            return self._decided(fact.uid, fact.at_ms) if fact.uid in self._halves else ()
        elif isinstance(fact, SendFailed):
            if fact.rolled_back:
                return self._taken_back(fact.uid, fact.at_ms)
        elif isinstance(fact, Situation):
            if fact.name == _COMMITTED:
                return self._decided(fact.about.get("uid", ""), fact.at_ms)
            if fact.name == _ROLLED_BACK:
                return self._taken_back(fact.about.get("uid", ""), fact.at_ms)
        return ()

    def finish(self, end: End) -> Iterator[Finding]:
        """Look for what was taken back in the logs, and for starts that nothing allowed."""
        for uid, started in self._seen.items():
            yield self._early(started, f"its sender had not committed it by the end ({end.at_ms} ms)")
            self._rolled_back.discard(uid)
        for logged in end.logged:
            if logged.uid in self._rolled_back and logged.queue.topic not in _HALF_TOPICS:
                sentence = f"{logged.uid} was rolled back, and offset {logged.offset} of {logged.queue} holds it"
                yield self.finding("safety", "log", end.at_ms, sentence, logged)

    def _started(self, fact: Started) -> Iterable[Finding]:
        if fact.uid in self._rolled_back:
            return (self._early(fact, "it was rolled back"),)
        if fact.uid not in self._committed:
            self._seen.setdefault(fact.uid, fact)
        return ()

    def _decided(self, uid: str, at_ms: int) -> Iterable[Finding]:
        self._committed.add(uid)
        started = self._seen.pop(uid, None)
        if started is None or at_ms - started.at_ms <= _LATE_MS:
            return ()
        return (self._early(started, f"its sender committed it at {at_ms} ms"),)

    def _taken_back(self, uid: str, at_ms: int) -> Iterable[Finding]:
        self._rolled_back.add(uid)
        started = self._seen.pop(uid, None)
        return () if started is None else (self._early(started, f"its sender rolled it back at {at_ms} ms"),)

    def _early(self, fact: Started, why: str) -> Finding:
        where = f"{fact.queue}, offset {fact.offset}"
        sentence = f"{fact.member} started the half message {fact.uid} ({where}) at {fact.at_ms} ms, and {why}"
        return self.finding("safety", "delivery", fact.at_ms, sentence, self._halves[fact.uid], fact)
