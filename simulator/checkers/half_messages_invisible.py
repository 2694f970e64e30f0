"""A transactional message is not handled before its sender committed it, and never if it was rolled back.

The decision is known when the message is acknowledged or has failed, or by the situations ``a half message was
committed`` and ``a half message was rolled back`` with its ``uid``, recorded when the sender decides. If there is only
the acknowledgement, it may reach the sender a little after the message reached a member. There is no excuse.
"""

from collections.abc import Iterable, Iterator

from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.facts import Fact, HandlerStarted, MessageAcked, MessageSent, SendGivenUp, Situation

_LATE_MS = 5_000
"""How long an acknowledgement may be in flight."""

_COMMITTED, _ROLLED_BACK = "a half message was committed", "a half message was rolled back"
_HALF_TOPICS = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC")


class HalfMessagesInvisible(Checker):
    """Half messages are invisible until they are committed."""

    name = "half messages invisible"
    fact_types = (MessageSent, MessageAcked, SendGivenUp, Situation, HandlerStarted)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._half_messages: dict[str, MessageSent] = {}
        self._committed: set[str] = set()
        self._rolled_back: set[str] = set()
        self._seen: dict[str, HandlerStarted] = {}
        """Halves that were started before the decision was known."""

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track the decision about each half, and check each start."""
        if isinstance(fact, HandlerStarted):
            return self._started(fact) if fact.uid in self._half_messages else ()
        if isinstance(fact, MessageSent):
            if fact.transactional:
                self._half_messages[fact.uid] = fact
        elif isinstance(fact, MessageAcked):
            return self._decided(fact.uid, fact.at_ms) if fact.uid in self._half_messages else ()
        elif isinstance(fact, SendGivenUp):
            if fact.rolled_back:
                return self._rolled_back_at(fact.uid, fact.at_ms)
        elif isinstance(fact, Situation):
            if fact.name == _COMMITTED:
                return self._decided(fact.about.get("uid", ""), fact.at_ms)
            if fact.name == _ROLLED_BACK:
                return self._rolled_back_at(fact.about.get("uid", ""), fact.at_ms)
        return ()

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Search the logs for rolled back messages, and report starts without a commit."""
        for uid, started in self._seen.items():
            yield self._early(started, f"its sender had not committed it by the end ({end.at_ms} ms)")
            self._rolled_back.discard(uid)
        for logged in end.logged:
            if logged.uid in self._rolled_back and logged.queue.topic not in _HALF_TOPICS:
                sentence = f"{logged.uid} was rolled back, and offset {logged.offset} of {logged.queue} holds it"
                yield self.finding("safety", "log", end.at_ms, sentence, logged)

    def _started(self, fact: HandlerStarted) -> Iterable[CheckerFinding]:
        if fact.uid in self._rolled_back:
            return (self._early(fact, "it was rolled back"),)
        if fact.uid not in self._committed:
            self._seen.setdefault(fact.uid, fact)
        return ()

    def _decided(self, uid: str, at_ms: int) -> Iterable[CheckerFinding]:
        self._committed.add(uid)
        started = self._seen.pop(uid, None)
        if started is None or at_ms - started.at_ms <= _LATE_MS:
            return ()
        return (self._early(started, f"its sender committed it at {at_ms} ms"),)

    def _rolled_back_at(self, uid: str, at_ms: int) -> Iterable[CheckerFinding]:
        self._rolled_back.add(uid)
        started = self._seen.pop(uid, None)
        return () if started is None else (self._early(started, f"its sender rolled it back at {at_ms} ms"),)

    def _early(self, fact: HandlerStarted, why: str) -> CheckerFinding:
        where = f"{fact.queue}, offset {fact.offset}"
        sentence = f"{fact.member} started the half message {fact.uid} ({where}) at {fact.at_ms} ms, and {why}"
        return self.finding("safety", "delivery", fact.at_ms, sentence, self._half_messages[fact.uid], fact)
