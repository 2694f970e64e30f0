"""One look at a cluster: a topic, a group, and all that is needed to say what became of each message. Frozen.

A look is taken at one moment (testing/sight.py takes it), and everything is worked out from it here, without asking
again: so a count and the words that explain it never disagree.

A message is *handled* by a group that is through with it: its offset is committed, or its member says that it will be;
and no copy of it waits to be tried again or rests in the group's dead letters. Messages that the group does not want by
its tags, or began behind, are not handled. Left out: conditions in SQL, of which only the broker knows which messages
they take: they count as wanted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from steelyard.model import StoredMessage, Subscription
from steelyard.model.names import RETRY
from steelyard.serve.looking import Progress, Waiting

__all__ = ["GroupLook", "Look", "State"]

_ORIGIN = "ORIGIN_MESSAGE_ID"


class State(NamedTuple):
    """What became of a message in a group."""

    kind: str
    """``handled``, ``waits``, ``failed``, ``dead`` or ``passed by``."""
    words: str
    """The same for people: how often it was tried, when it is due again, why it was passed by."""


@dataclass(frozen=True)
class GroupLook:
    """A group, as far as it was seen."""

    name: str
    progress: tuple[Progress, ...] = ()
    """In the queues of the topic."""
    retries: tuple[StoredMessage, ...] = ()
    """Copies that came again, and were not handled yet."""
    dead: tuple[StoredMessage, ...] = ()
    online: tuple[str, ...] = ()
    """The ids of its members that are there."""
    gone: tuple[str, ...] = ()
    """The ids of those that were."""
    wanted: Subscription | None = None
    """What it wants of the topic; None: that is not known."""
    began: dict[tuple[str, int], int] = field(default_factory=dict)
    """The lowest offset that it asked for, by broker and queue."""
    is_broadcast: bool = False

    @property
    def takes_part(self) -> bool:
        """Whether the group has to do with the topic."""
        return self.wanted is not None or bool(self.began) or any(each.committed for each in self.progress)


@dataclass(frozen=True)
class Look:
    """A topic, and a group if one was asked for."""

    topic: str
    messages: tuple[StoredMessage, ...]
    waiting: tuple[Waiting, ...]
    """Messages of any topic that wait for their time."""
    group: GroupLook | None
    now_ms: int
    topics: tuple[str, ...]
    """The users' own topics."""
    groups: tuple[str, ...] = ()
    """Groups of which somebody was there."""
    refusals: tuple[str, ...] = ()
    """What was refused, the last one last."""
    down: tuple[str, ...] = ()
    """Brokers that do not run, so that nobody knows what they have."""

    @property
    def delayed(self) -> tuple[Waiting, ...]:
        """What waits for its time to get into the topic."""
        return tuple(each for each in self.waiting if each.topic == self.topic)

    @cached_property
    def states(self) -> tuple[State, ...]:
        """What became of each message in the group, in their order."""
        group = self.group
        if group is None:
            return ()
        committed = {(each.queue.broker, each.queue.queue_id): each.committed or 0 for each in group.progress}
        tried = _by_origin(group.retries)
        dead = _by_origin(group.dead)
        later = {
            waits.message.properties.get(_ORIGIN, ""): waits
            for waits in self.waiting
            if waits.topic == f"{RETRY}{group.name}"
        }
        return tuple(self._state(group, message, committed, tried, dead, later) for message in self.messages)

    def _state(
        self,
        group: GroupLook,
        message: StoredMessage,
        committed: dict[tuple[str, int], int],
        tried: dict[str, StoredMessage],
        dead: dict[str, StoredMessage],
        later: dict[str, Waiting],
    ) -> State:
        queue = message.queue.broker, message.queue.queue_id
        if group.wanted is not None and not group.wanted.takes(message.tags):
            return State("passed by", f"passed by: the group wants {group.wanted.expression}")
        for name in (message.offset_id, message.message_id):
            if name in dead:
                return State("dead", f"given up, failed {_times(dead[name].reconsume_times)}")
            if name in later:
                in_s = max(0, later[name].due_ms - self.now_ms) / 1000
                times = _times(later[name].message.reconsume_times)
                return State("failed", f"failed {times}, due again in {in_s:.0f} s")
            if name in tried:
                return State("failed", f"failed {_times(tried[name].reconsume_times)}, is there again")
        if message.offset >= committed.get(queue, 0):
            return State("waits", "waits")
        if message.offset < group.began.get(queue, 0):
            return State("passed by", 'passed by: the group began behind it, start_from="first" takes it')
        return State("handled", "handled")

    @property
    def wanted(self) -> int:
        """How many messages the group has handled, or should."""
        return sum(state.kind != "passed by" for state in self.states)

    @property
    def handled(self) -> int:
        """How many messages the group has handled."""
        return sum(state.kind == "handled" for state in self.states)


def _by_origin(copies: Iterable[StoredMessage]) -> dict[str, StoredMessage]:
    return {message.properties.get(_ORIGIN, message.message_id): message for message in copies}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
