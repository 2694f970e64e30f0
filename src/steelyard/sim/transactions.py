"""A producer's side of transactions: it decides after the half is stored, says so once, and answers when it is asked.

A decision is written down before it is said, in a table that outlives the process if whoever runs it keeps it. A half
whose send failed is decided too: it must not be seen, should it be there after all. Some decisions are never said of
one's own accord, so that brokers have to ask. An end that was not confirmed is not said again: Apache's broker would
store a second copy; the broker asks once more.
"""

from typing import TYPE_CHECKING
from zlib import crc32

from steelyard.dialect.sending import Half
from steelyard.dialect.transactions import end_request, half_asked_for
from steelyard.sim.facts import SendFailed, Situation
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.producers import ProducerProcess

__all__ = ["Transactions"]

_SILENT_PERCENT = 15
"""How many of a hundred halves wait for the broker to ask."""


class Transactions:
    """The transactions of one producer."""

    def __init__(self, producer: "ProducerProcess", decisions: dict[str, bool]) -> None:
        self._producer = producer
        self.decisions = decisions
        """By uid: whether it is committed."""
        self._salt = f"{producer.world.random.getrandbits(32)}/"
        self._confirmed: set[str] = set()
        self._ending: dict[int, tuple[str, str]] = {}
        """By number of the request: the uid of a commit that is not confirmed yet, and its broker."""

    def forget(self) -> None:
        """Begin a new life: only the decisions are left."""
        self._ending.clear()

    @property
    def open(self) -> int:
        """How many commits no broker has confirmed yet."""
        return sum(commits and uid not in self._confirmed for uid, commits in self.decisions.items())

    def stored(self, uid: str, broker: str, half: Half) -> None:
        """Decide about a half that is stored, unless a broker asked before that, and say so, mostly."""
        drawn = crc32((self._salt + uid).encode())
        if drawn % 100 < self._producer.plan.rollback_percent:
            self.roll_back(uid)
        self._commit(uid)
        if drawn // 100 % 100 >= _SILENT_PERCENT:
            self._end(uid, broker, half, was_asked=False)

    def _commit(self, uid: str) -> None:
        """Decide that a message is to be seen, unless something is decided; an answer may never tell that it is."""
        if uid not in self.decisions:
            self.decisions[uid] = True
            self._situation("a half message was committed", uid)

    def roll_back(self, uid: str) -> None:
        """Decide that a message must not be seen."""
        if uid not in self.decisions:
            self.decisions[uid] = False
            producer = self._producer
            producer.world.tell(SendFailed(at_ms=producer.world.now_ms(), uid=uid, rolled_back=True))
            self._situation("a half message was rolled back", uid)

    def _situation(self, name: str, uid: str) -> None:
        world = self._producer.world
        world.tell(Situation(at_ms=world.now_ms(), name=name, about={"uid": uid}))

    def asked(self, broker: str, question: Command) -> None:
        """Answer a broker's question about a half; one that nothing is decided about was never sent to its end."""
        half = half_asked_for(question)
        uid = half.unique_key
        self._situation("a half message was asked about", uid)
        if uid not in self.decisions:
            self.roll_back(uid)
        self._end(uid, broker, half, was_asked=True)

    def _end(self, uid: str, broker: str, half: Half, *, was_asked: bool) -> None:
        producer, commits = self._producer, self.decisions[uid]
        opaque = producer.ask(
            broker,
            lambda opaque: end_request(
                producer.group, producer.plan.topic, half, commits=commits, was_asked=was_asked, opaque=opaque
            ),
        )
        if opaque is not None and commits:
            self._ending[opaque] = uid, broker

    def answered(self, answer: Command) -> None:
        """Take the answer to an end."""
        uid, broker = self._ending.pop(answer.opaque, ("", ""))
        if uid and answer.code == 0 and uid not in self._confirmed:
            self._confirmed.add(uid)
            self._producer.acked(uid, broker)

    def line_lost(self, broker: str) -> None:
        """Expect no more answers of a broker's line."""
        self._ending = {opaque: end for opaque, end in self._ending.items() if end[1] != broker}
