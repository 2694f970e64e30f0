"""What the other members hold, asked of each of them where no broker can tell: what a sticky plan starts from.

One sweep a round, a few questions at a time, since each keeps a thread of the broker that passes it on. A member that
did not answer twice in a row is *silent*: nobody waits for it any more, and one silent member after the other is asked
in passing, so that an answer is noticed. As long as a member of the group is silent, owners are not known.

Left out: the questions of who takes a queue, which must be sure where this need not (their tickets are odd).
"""

from collections.abc import Iterable, Mapping

from steelyard.balance.actions import Action, AskHolders
from steelyard.balance.events import HoldersFailed, HoldersSeen
from steelyard.model import Queue

__all__ = ["Owners"]

_AT_A_TIME = 4
_STRIKES = 2
"""So many questions without an answer make a member silent."""


class Owners:
    """What peers said of themselves."""

    def __init__(self) -> None:
        self._held: dict[str, frozenset[Queue]] = {}
        self._strikes: dict[str, int] = {}
        self._to_ask: list[tuple[str, str]] = []
        """Members and the brokers to ask them through; the next one is the last."""
        self._asked: dict[str, tuple[str, int]] = {}
        """Members whose answer is awaited, each with its broker and ticket."""
        self._probed: tuple[str, str, int] | None = None
        """The silent member that was asked in passing, with its broker and ticket."""
        self._ticket = 0

    @property
    def is_done(self) -> bool:
        """Whether everybody that is waited for has answered, or will not."""
        return not self._asked and not self._to_ask

    def are_known(self, members: Iterable[str]) -> bool:
        """Say whether none of these members is silent."""
        return not self._strikes or not any(self._is_silent(member) for member in members)

    def held(self) -> Mapping[str, frozenset[Queue]]:
        """Return what each member held when it was last asked."""
        return self._held

    def begin(self, peers: Mapping[str, str], ticket: int) -> list[Action]:
        """Ask these members, each through its broker. What is known of others is forgotten."""
        self._held = {member: held for member, held in self._held.items() if member in peers}
        self._strikes = {member: count for member, count in self._strikes.items() if member in peers}
        self._ticket = ticket
        self._asked.clear()
        silent = [member for member in peers if self._is_silent(member)]
        self._to_ask = [(member, broker) for member, broker in peers.items() if member not in silent]
        self._to_ask.reverse()
        actions = self._ask_more()
        if silent and self._probed is None:
            # Another one each round, in turn.
            member = silent[ticket // 2 % len(silent)]
            self._probed = (member, peers[member], ticket)
            actions.append(AskHolders(peers[member], member, ticket=ticket))
        return actions

    def seen(self, event: HoldersSeen) -> tuple[list[Action], bool]:
        """Take an answer; return what to ask next, and whether a silent member spoke again."""
        if self._take_probe(event.member, event.ticket):
            self._strikes.pop(event.member, None)
            return [], True
        if self._take_asked(event.member, event.ticket):
            self._strikes.pop(event.member, None)
            self._held[event.member] = event.held
            return self._ask_more(), False
        return [], False

    def failed(self, event: HoldersFailed) -> list[Action]:
        """Take note that a member did not answer, or that the broker does not know it any more."""
        if self._take_probe(event.member, event.ticket):
            return []
        if not self._take_asked(event.member, event.ticket):
            return []
        if event.gone:
            self._held.pop(event.member, None)
        else:
            self._strikes[event.member] = self._strikes.get(event.member, 0) + 1
        return self._ask_more()

    def cut(self, broker: str) -> list[Action]:
        """Take note that questions to a broker will not be answered; that is nobody's fault."""
        if self._probed is not None and self._probed[1] == broker:
            self._probed = None
        self._asked = {member: asked for member, asked in self._asked.items() if asked[0] != broker}
        self._to_ask = [each for each in self._to_ask if each[1] != broker]
        return self._ask_more()

    def _is_silent(self, member: str) -> bool:
        return self._strikes.get(member, 0) >= _STRIKES

    def _take_probe(self, member: str, ticket: int) -> bool:
        if self._probed is None or (self._probed[0], self._probed[2]) != (member, ticket):
            return False
        self._probed = None
        return True

    def _take_asked(self, member: str, ticket: int) -> bool:
        if member not in self._asked or self._asked[member][1] != ticket:
            return False
        del self._asked[member]
        return True

    def _ask_more(self) -> list[Action]:
        actions: list[Action] = []
        while self._to_ask and len(self._asked) < _AT_A_TIME:
            member, broker = self._to_ask.pop()
            self._asked[member] = (broker, self._ticket)
            actions.append(AskHolders(broker, member, ticket=self._ticket))
        return actions
