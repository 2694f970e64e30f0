"""What the other members hold, asked of each of them where no broker can tell: what a sticky plan starts from.

One sweep a round, a few questions at a time, since each keeps a thread of the broker that passes it on. A member that
does not answer is believed to hold what it last reported, and until it answers nothing more is planned for it: it is
*unheard*. Of one that misses two questions in a row nobody waits for the answer any more. It is asked in the
background, seldom and with much time, since it may only be slow: if it answers so, it counts as heard. Once it asks us
something it is asked at once, since it may be back. One that asked us about queues just now counts as heard, too: it
lives, and only our questions do not reach it. Of one that never answered us, since we came when it was silent already,
the others say what it last reported: all members plan from the same.

Left out: the questions of who takes a queue, which must be sure where this need not (their tickets are odd).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from steelyard.balance.actions import Action, AskHolders
from steelyard.balance.allocate.strategy import Owned
from steelyard.balance.events import HoldersFailed, HoldersSeen
from steelyard.model import Queue, in_order

__all__ = ["Owners", "OwnersSeen"]

_AT_A_TIME = 4
_STRIKES = 2
"""After so many questions without an answer a member is asked in the background."""


class OwnersSeen(NamedTuple):
    """Who has what, at the end of a round."""

    owned: Owned | None
    """What each member has, or last reported; None if that cannot be known."""
    unheard: frozenset[str] = frozenset()
    """Members that did not answer the last question, or never reported."""
    unanswering: tuple[str, ...] = ()
    """Members that missed several questions in a row, in order."""


class Owners:
    """What peers said of themselves."""

    def __init__(self, background_ms: int) -> None:
        self._background_ms = background_ms
        """Between two questions to a member in the background."""
        self._held: dict[str, frozenset[Queue]] = {}
        self._strikes: dict[str, int] = {}
        """Questions in a row that each member did not answer; whoever answered the last one is not in it."""
        self._background: dict[str, int] = {}
        """Members that are asked in the background, with the time of the last question."""
        self._to_ask: list[tuple[str, str]] = []
        """Members and the brokers to ask them through; the next one is the last."""
        self._asked: dict[str, tuple[str, int]] = {}
        """Members whose answer is awaited, each with its broker and ticket."""
        self._probed: tuple[str, str, int] | None = None
        """The member that was asked in the background, with its broker and ticket."""
        self._spoke_ms: dict[str, int] = {}
        """When members asked us about queues."""
        self._hearsay: dict[str, Mapping[str, tuple[Queue, ...]]] = {}
        """What each member last said of those who do not answer it."""
        self._ticket = 0

    @property
    def is_done(self) -> bool:
        """Whether everybody that is waited for has answered, or will not."""
        return not self._asked and not self._to_ask

    def unheard(self, members: Iterable[str], since_ms: int) -> frozenset[str]:
        """Return those of these members that did not answer the last question, nor asked us anything since a time."""
        silent = (member for member in members if member in self._strikes or member not in self._held)
        return frozenset(member for member in silent if self._spoke_ms.get(member, since_ms) <= since_ms)

    def spoke(self, member: str, now_ms: int) -> None:
        """Take note that a member asked us about queues."""
        self._spoke_ms[member] = now_ms

    def is_back(self, member: str, now_ms: int) -> bool:
        """Say whether a member that does not answer asks us something; then it is asked in the next round."""
        if member not in self._strikes or member not in self._background or self._probed is not None:
            return False
        self._background[member] = now_ms - self._background_ms
        return True

    def unanswering(self, members: Iterable[str]) -> tuple[str, ...]:
        """Return those of these members that missed several questions in a row, in order."""
        return tuple(member for member in members if self._strikes.get(member, 0) >= _STRIKES)

    def held(self) -> Mapping[str, Iterable[Queue]]:
        """Return what each member held when it last answered us; or else the first of the others that tells of it."""
        told: dict[str, Iterable[Queue]] = {}
        for teller in sorted(self._hearsay, reverse=True):
            told.update(self._hearsay[teller])
        return told | self._held

    def unheard_owners(self) -> dict[str, tuple[Queue, ...]]:
        """Return what members held when they last answered that do not answer now."""
        return {member: tuple(in_order(self._held[member])) for member in self._strikes if member in self._held}

    def begin(self, peers: Mapping[str, str], members: Iterable[str], ticket: int, now_ms: int) -> list[Action]:
        """Ask these peers, each through its broker. What is known of others than these members is forgotten."""
        members = frozenset(members)
        self._held = {member: held for member, held in self._held.items() if member in members}
        self._strikes = {member: count for member, count in self._strikes.items() if member in members}
        self._background = {member: at_ms for member, at_ms in self._background.items() if member in members}
        self._spoke_ms = {member: at_ms for member, at_ms in self._spoke_ms.items() if member in members}
        self._hearsay = {member: told for member, told in self._hearsay.items() if member in members}
        self._ticket = ticket
        self._asked.clear()
        self._to_ask = [(member, broker) for member, broker in peers.items() if member not in self._background]
        self._to_ask.reverse()
        return self._ask_more(now_ms) + self._probe(peers, ticket, now_ms)

    def _probe(self, peers: Mapping[str, str], ticket: int, now_ms: int) -> list[Action]:
        """Ask one member in the background: the one that was not asked for longest, if that is long enough."""
        waiting = [(at_ms, member) for member, at_ms in self._background.items() if member in peers]
        if self._probed is not None or not waiting:
            return []
        at_ms, member = min(waiting)
        if now_ms - at_ms < self._background_ms:
            return []
        self._background[member] = now_ms
        self._probed = (member, peers[member], ticket)
        return [AskHolders(peers[member], member, ticket=ticket, is_patient=True, asked_ms=now_ms)]

    def seen(self, event: HoldersSeen, now_ms: int, prompt_ms: int) -> tuple[list[Action], bool]:
        """Take an answer; return what to ask next, and whether one from the background is news."""
        member = event.member
        if self._take_probe(member, event.ticket):
            is_news = member in self._strikes or self._held.get(member) != event.held
            self._report(event)
            if now_ms - self._background.get(member, now_ms) < prompt_ms:
                self._background.pop(member, None)
            return [], is_news
        if self._take_asked(member, event.ticket):
            self._report(event)
            return self._ask_more(now_ms), False
        return [], False

    def _report(self, event: HoldersSeen) -> None:
        self._strikes.pop(event.member, None)
        self._held[event.member] = event.held
        self._hearsay[event.member] = event.unheard

    def failed(self, event: HoldersFailed, now_ms: int) -> list[Action]:
        """Take note that a member did not answer, or that the broker does not know it any more."""
        member = event.member
        if self._take_probe(member, event.ticket):
            self._strikes[member] = self._strikes.get(member, 0) + 1
            return []
        if not self._take_asked(member, event.ticket):
            return []
        if event.gone:
            self._held.pop(member, None)
        else:
            self._strikes[member] = self._strikes.get(member, 0) + 1
            if self._strikes[member] >= _STRIKES:
                self._background[member] = now_ms - self._background_ms
        return self._ask_more(now_ms)

    def cut(self, broker: str, now_ms: int) -> list[Action]:
        """Take note that questions to a broker will not be answered; that is nobody's fault."""
        if self._probed is not None and self._probed[1] == broker:
            self._probed = None
        self._asked = {member: asked for member, asked in self._asked.items() if asked[0] != broker}
        self._to_ask = [each for each in self._to_ask if each[1] != broker]
        return self._ask_more(now_ms)

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

    def _ask_more(self, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        while self._to_ask and len(self._asked) < _AT_A_TIME:
            member, broker = self._to_ask.pop()
            self._asked[member] = (broker, self._ticket)
            actions.append(AskHolders(broker, member, ticket=self._ticket, asked_ms=now_ms))
        return actions
