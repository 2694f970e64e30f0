"""How far each group is in each queue: committed offsets, offsets pulled so far, resets that wait for their member.

A commit may go backwards, as with Apache; that is counted. Who may commit is decided before it comes here (fencing.py).

A reset is a commit that others must not undo. It is kept beside the committed offset until the queue's member knows: a
pull of the queue takes it (`take_reset`) and is told to go there. The member then says that it went, with a commit of
just that offset or with its next pull, and only then counts again what it commits: Java's members of 4.9 stop for ten
seconds after they were told, and commit their old offsets meanwhile. If its line closes before, the next pull is told.
After a restart the committed offset is all that is left of a reset, and says the same to whoever asks first.

The table is a document that is read back whole, so it grows no further than that allows.
"""

from collections.abc import Callable, Container, Iterator, Mapping

from steelyard.broker.refusals import refusal
from steelyard.wire.bodies.offsets import GroupOffsets
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.codes import ResponseCode
from steelyard.wire.limits import FRAME_BYTES
from steelyard.wire.maps import ById

__all__ = ["Offsets"]

_BETWEEN = "@"
# What a queue takes in the saved document at most: a number of five digits, one of nineteen, a colon and a comma; and a
# pair of topic and group beside their names: quotes, brackets, signs.
_QUEUE_BYTES, _PAIR_BYTES = 26, 8
_MOST_BYTES = FRAME_BYTES - 64 * 1024
_MOST_PULLS = 1_000_000
"""Places of pulls that are remembered; they are only told, and every group may pull from every queue."""

_NOTHING: Mapping[int, int] = {}
_ByTopic = dict[str, dict[int, int]]


class Offsets:
    """The table of offsets, by group and topic. ``changes`` grows with each change.

    >>> offsets = Offsets(None)
    >>> offsets.put("billing", "orders", 0, 41)
    >>> offsets.get("billing", "orders", 0), offsets.get("billing", "orders", 1)
    (41, None)
    """

    def __init__(self, saved: GroupOffsets | None) -> None:
        self.changes = 0
        self.lowered = 0
        """How many commits were lower than the one before."""
        self.fenced = 0
        """How many commits were refused because somebody else holds the queue."""
        self._committed: dict[str, _ByTopic] = {}
        self._pulled: dict[str, _ByTopic] = {}
        self._resets: dict[tuple[str, str, int], int] = {}
        """Resets of which no pull was told yet."""
        self._told: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Resets that a pull was told, and whose member has not gone there yet: the offset, and the line."""
        self._bytes = 0
        """How long the saved document is at most."""
        self._version = (saved and saved.version) or TableVersion(state_version=0)
        self._pulls = 0
        for pair, queues in (saved.offsets if saved is not None else {}).items():
            topic, _, group = pair.partition(_BETWEEN)
            for queue_id, offset in queues.items() if group else ():
                if offset >= 0:
                    # What was saved is taken, whoever saved it, and be it more than would be taken now.
                    self._add(group, topic, queue_id, offset)

    # -- committed ----------------------------------------------------------------------------------------------------

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return what the group committed, or None. A reset counts as a commit."""
        topics = self._committed.get(group)
        queues = topics.get(topic) if topics is not None else None
        return queues.get(queue_id) if queues is not None else None

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take a commit as it is."""
        topics = self._committed.get(group)
        queues = topics.get(topic) if topics is not None else None
        known = queues.get(queue_id) if queues is not None else None
        if known is None or queues is None:
            if not self.has_room(group, topic):
                raise refusal(
                    ResponseCode.SYSTEM_ERROR,
                    "this broker remembers as many offsets as it can save: delete groups that are not used any more",
                )
            self._add(group, topic, queue_id, offset)
        elif offset == known:
            return
        else:
            if offset < known:
                self.lowered += 1
            queues[queue_id] = offset
        self.changes += 1

    def has_room(self, group: str, topic: str) -> bool:
        """Say whether one more queue of a topic can be remembered for a group."""
        return self._bytes + _QUEUE_BYTES + _pair_bytes(group, topic) <= _MOST_BYTES

    def _add(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        topics = self._committed.setdefault(group, {})
        if topic not in topics:
            topics[topic] = {}
            self._bytes += _pair_bytes(group, topic)
        topics[topic][queue_id] = offset
        self._bytes += _QUEUE_BYTES

    def cut(self, end_of: Callable[[str, int], int], *, but: Container[str]) -> int:
        """Move offsets that lie behind the end of their queue to that end, for all groups ``but`` some; count them.

        After a loss of power the log may be shorter than what was committed. What is sent then gets the same numbers
        again, and a group that stayed behind them would never see it.
        """
        moved = 0
        for group, topics in self._committed.items():
            for topic, queues in topics.items() if group not in but else ():
                for queue_id, offset in queues.items():
                    end = end_of(topic, queue_id)
                    if offset > end:
                        queues[queue_id] = end
                        moved += 1
        self.changes += moved
        return moved

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return what the group committed in a topic, by queue."""
        return self._committed.get(group, {}).get(topic, _NOTHING)

    def topics_of(self, group: str) -> list[str]:
        """List the topics in which the group has offsets."""
        return sorted(self._committed.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """List the groups that have offsets in a topic."""
        return sorted(group for group, topics in self._committed.items() if topic in topics)

    def copy(self, source: str, target: str, topic: str) -> list[int]:
        """Give a group what another one committed in a topic; return the queues it got."""
        given = dict(self.of(source, topic))
        for queue_id, offset in given.items():
            self.put(target, topic, queue_id, offset)
        return list(given)

    # -- pulled -------------------------------------------------------------------------------------------------------

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where the group's last pull ended, or None."""
        return self.pulls_of(group, topic).get(queue_id)

    def pulls_of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return where the group's last pulls of a topic ended, by queue."""
        return self._pulled.get(group, {}).get(topic, _NOTHING)

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a pull ended; it is not saved."""
        topics = self._pulled.get(group)
        queues = topics.get(topic) if topics is not None else None
        if queues is None or queue_id not in queues:
            if self._pulls >= _MOST_PULLS:
                return
            self._pulls += 1
            queues = self._pulled.setdefault(group, {}).setdefault(topic, {})
        queues[queue_id] = offset

    # -- resets -------------------------------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on from an offset, whatever its members commit until they were told."""
        self.put(group, topic, queue_id, offset)
        self._told.pop((group, topic, queue_id), None)
        self._resets[group, topic, queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int, line: int) -> int | None:
        """Return the offset that a pull on a line must be told, once; a pull after that one goes on by itself."""
        if not self._resets and not self._told:
            return None
        queue = (group, topic, queue_id)
        offset = self._resets.pop(queue, None)
        if offset is None:
            self._told.pop(queue, None)
        else:
            self._told[queue] = offset, line
        return offset

    def outlives(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a reset is stronger than this commit: its member does not know of it, or has not gone there yet."""
        if not self._resets and not self._told:
            return False
        queue = (group, topic, queue_id)
        if queue in self._resets:
            return True
        told = self._told.get(queue)
        if told is None:
            return False
        if offset == told[0]:
            del self._told[queue]
            return False
        return True

    def forget_line(self, line: int) -> None:
        """Let resets be told again that were told on a line which closed since."""
        for queue in [queue for queue, told in self._told.items() if told[1] == line]:
            self._resets[queue] = self._told.pop(queue)[0]

    # -- forgetting and saving ----------------------------------------------------------------------------------------

    def forget_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        for group in [*self._committed, *self._pulled]:
            self._forget(group, topic)
        self._forget_resets(1, topic)

    def forget_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        for topic in [*self._committed.get(group, ()), *self._pulled.get(group, ())]:
            self._forget(group, topic)
        self._forget_resets(0, group)

    def _forget(self, group: str, topic: str) -> None:
        queues = self._committed.get(group, {}).pop(topic, None)
        if queues is not None:
            self._bytes -= len(queues) * _QUEUE_BYTES + _pair_bytes(group, topic)
            self.changes += 1
        self._pulls -= len(self._pulled.get(group, {}).pop(topic, ()))
        for table in (self._committed, self._pulled):
            if group in table and not table[group]:
                del table[group]

    def _forget_resets(self, part: int, name: str) -> None:
        self._resets = {queue: offset for queue, offset in self._resets.items() if queue[part] != name}
        self._told = {queue: told for queue, told in self._told.items() if queue[part] != name}

    def _pairs(self) -> Iterator[tuple[str, ById[int]]]:
        for group, topics in self._committed.items():
            for topic, queues in topics.items():
                yield f"{topic}{_BETWEEN}{group}", ById(queues)

    def table(self) -> GroupOffsets:
        """Return the table as it is saved."""
        version = TableVersion(
            counter=self._version.counter + self.changes, state_version=0, timestamp=self._version.timestamp
        )
        return GroupOffsets(version=version, offsets=dict(self._pairs()))


def _pair_bytes(group: str, topic: str) -> int:
    return len(group) + len(topic) + _PAIR_BYTES
