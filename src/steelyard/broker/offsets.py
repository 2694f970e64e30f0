"""Consumer offsets: committed offsets, ends of pulls, and resets in progress (ConsumerOffsetManager).

A commit may go backwards, as with Apache; that is counted. Whether a commit is allowed is decided before
(commit_fencing.py). The table is a document that is read back as a whole, so its size is limited.

A reset is a commit that others must not undo. It is kept beside the committed offset until the queue's member knows:
the next pull of the queue is sent there (`pop_reset`). The member confirms with a commit of exactly that offset or with
its next pull, and only then its commits count again: Java's members of 4.9 pause for ten seconds after they learned of
a reset, and commit their old offsets meanwhile. If its connection closes before, the next pull gets the reset. After a
restart the committed offset is all that is left of a reset, and has the same effect.
"""

from collections.abc import Callable, Container, Iterator, Mapping

from steelyard.broker.request_errors import system_error
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.offsets import ConsumerOffsetTable
from steelyard.wire.json_body import ById
from steelyard.wire.limits import FRAME_BYTES

_SEPARATOR = "@"
# What a queue takes in the saved document at most: five digits, nineteen digits, a colon and a comma; and what a pair
# of topic and group takes beside their names: quotes, brackets, separators.
_QUEUE_BYTES, _PAIR_BYTES = 26, 8
_MAX_BYTES = FRAME_BYTES - 64 * 1024
_MAX_PULL_OFFSETS = 1_000_000
"""Ends of pulls that are kept, for statistics only: every group may pull from every queue."""

_NOTHING: Mapping[int, int] = {}
_ByTopic = dict[str, dict[int, int]]


class ConsumerOffsets:
    """The table of offsets, by group and topic. ``changes`` grows with each change.

    >>> offsets = ConsumerOffsets(None)
    >>> offsets.put("billing", "orders", 0, 41)
    >>> offsets.get("billing", "orders", 0), offsets.get("billing", "orders", 1)
    (41, None)
    """

    def __init__(self, saved: ConsumerOffsetTable | None) -> None:
        self.changes = 0
        self.backward_commits = 0
        """Commits that were lower than the previous one."""
        self.fenced_commits = 0
        """Commits refused because another member holds the queue."""
        self._committed: dict[str, _ByTopic] = {}
        self._moved_ms: dict[str, _ByTopic] = {}
        """When each committed offset last changed, since this broker was started."""
        self._pulled_offsets: dict[str, _ByTopic] = {}
        self._pending_resets: dict[tuple[str, str, int], int] = {}
        """Resets that no pull has received yet."""
        self._delivered_resets: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Resets that a pull has received and its member has not confirmed: offset and connection."""
        self._bytes = 0
        """The upper bound of the saved document's size."""
        self._version = (saved and saved.version) or TableVersion(state_version=0)
        self._pulls = 0
        for pair, queues in (saved.offsets if saved is not None else {}).items():
            topic, _, group = pair.partition(_SEPARATOR)
            for queue_id, offset in queues.items() if group else ():
                if offset >= 0:
                    # Saved offsets are accepted even beyond the present limit.
                    self._add(group, topic, queue_id, offset)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset, or None. A reset counts as a commit."""
        topics = self._committed.get(group)
        queues = topics.get(topic) if topics is not None else None
        return queues.get(queue_id) if queues is not None else None

    def moved_ms(self, group: str, topic: str, queue_id: int) -> int:
        """Return when a committed offset last changed; 0 if not since the broker was started."""
        return self._moved_ms.get(group, {}).get(topic, _NOTHING).get(queue_id, 0)

    def put(self, group: str, topic: str, queue_id: int, offset: int, now_ms: int = 0) -> None:
        """Store a commit."""
        topics = self._committed.get(group)
        queues = topics.get(topic) if topics is not None else None
        known = queues.get(queue_id) if queues is not None else None
        if known is None or queues is None:
            if not self.has_room(group, topic):
                raise system_error(
                    "this broker has as many offsets as it can save: delete groups that are no longer used"
                )
            self._add(group, topic, queue_id, offset)
        elif offset == known:
            return
        else:
            if offset < known:
                self.backward_commits += 1
            queues[queue_id] = offset
        self.changes += 1
        if now_ms:
            self._moved_ms.setdefault(group, {}).setdefault(topic, {})[queue_id] = now_ms

    def has_room(self, group: str, topic: str) -> bool:
        """Return whether there is room for one more queue of a topic and group."""
        return self._bytes + _QUEUE_BYTES + _pair_bytes(group, topic) <= _MAX_BYTES

    @property
    def room(self) -> int:
        """How many queues more there is room for, of topics and groups that have offsets already."""
        return max(0, _MAX_BYTES - self._bytes) // _QUEUE_BYTES

    def _add(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        topics = self._committed.setdefault(group, {})
        if topic not in topics:
            topics[topic] = {}
            self._bytes += _pair_bytes(group, topic)
        topics[topic][queue_id] = offset
        self._bytes += _QUEUE_BYTES

    def clamp_to_ends(self, end_of: Callable[[str, int], int], *, exclude: Container[str]) -> int:
        """Move offsets beyond the end of their queue to that end, except of groups in ``exclude``; return how many.

        After a power loss the log may be shorter than what was committed. New messages get the same offsets again, and
        a group beyond them would never see them.
        """
        moved = 0
        for group, topics in self._committed.items():
            for topic, queues in topics.items() if group not in exclude else ():
                for queue_id, offset in queues.items():
                    end = end_of(topic, queue_id)
                    if offset > end:
                        queues[queue_id] = end
                        moved += 1
        self.changes += moved
        return moved

    def committed_in(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the committed offsets of a group in a topic, by queue."""
        return self._committed.get(group, {}).get(topic, _NOTHING)

    def topics_of(self, group: str) -> list[str]:
        """List the topics in which a group has offsets."""
        return sorted(self._committed.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """List the groups that have offsets in a topic."""
        return sorted(group for group, topics in self._committed.items() if topic in topics)

    def readers_of(self, topics: Mapping[str, object]) -> dict[str, list[str]]:
        """List the groups that have offsets in each of these topics, in one pass over all."""
        found: dict[str, list[str]] = {}
        for group, held in self._committed.items():
            for topic in held.keys() & topics.keys():
                found.setdefault(topic, []).append(group)
        return found

    def clone(self, source: str, target: str, topic: str) -> list[int]:
        """Copy the offsets of a topic from one group to another; return the queues."""
        given = dict(self.committed_in(source, topic))
        for queue_id, offset in given.items():
            self.put(target, topic, queue_id, offset)
        return list(given)

    def pulled_in(self, group: str, topic: str) -> Mapping[int, int]:
        """Return where the group's last pulls of a topic ended, by queue."""
        return self._pulled_offsets.get(group, {}).get(topic, _NOTHING)

    def record_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Record where a pull ended; it is not saved."""
        topics = self._pulled_offsets.get(group)
        queues = topics.get(topic) if topics is not None else None
        if queues is None or queue_id not in queues:
            if self._pulls >= _MAX_PULL_OFFSETS:
                return
            self._pulls += 1
            queues = self._pulled_offsets.setdefault(group, {}).setdefault(topic, {})
        queues[queue_id] = offset

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Reset a group to an offset, whatever its members commit before they know of it."""
        self.put(group, topic, queue_id, offset)
        self._delivered_resets.pop((group, topic, queue_id), None)
        self._pending_resets[group, topic, queue_id] = offset

    def pop_reset(self, group: str, topic: str, queue_id: int, connection: int) -> int | None:
        """Return the reset for a pull on a connection, once; the next pull confirms it."""
        if not self._pending_resets and not self._delivered_resets:
            return None
        queue = (group, topic, queue_id)
        offset = self._pending_resets.pop(queue, None)
        if offset is None:
            self._delivered_resets.pop(queue, None)
        else:
            self._delivered_resets[queue] = offset, connection
        return offset

    def reset_overrides(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a reset overrides this commit: its member does not know of it, or has not confirmed it."""
        if not self._pending_resets and not self._delivered_resets:
            return False
        queue = (group, topic, queue_id)
        if queue in self._pending_resets:
            return True
        delivered = self._delivered_resets.get(queue)
        if delivered is None:
            return False
        if offset == delivered[0]:
            del self._delivered_resets[queue]
            return False
        return True

    def connection_closed(self, connection: int) -> None:
        """Make resets pending again that were sent on a closed connection."""
        for queue in [queue for queue, delivered in self._delivered_resets.items() if delivered[1] == connection]:
            self._pending_resets[queue] = self._delivered_resets.pop(queue)[0]

    def forget_topic(self, topic: str) -> None:
        """Remove all offsets in a topic."""
        for group in [*self._committed, *self._pulled_offsets]:
            self._forget(group, topic)
        self._forget_resets(1, topic)

    def forget_group(self, group: str) -> None:
        """Remove all offsets of a group."""
        for topic in [*self._committed.get(group, ()), *self._pulled_offsets.get(group, ())]:
            self._forget(group, topic)
        self._forget_resets(0, group)

    def _forget(self, group: str, topic: str) -> None:
        queues = self._committed.get(group, {}).pop(topic, None)
        if queues is not None:
            self._bytes -= len(queues) * _QUEUE_BYTES + _pair_bytes(group, topic)
            self.changes += 1
        self._pulls -= len(self._pulled_offsets.get(group, {}).pop(topic, ()))
        self._moved_ms.get(group, {}).pop(topic, None)
        for table in (self._committed, self._pulled_offsets, self._moved_ms):
            if group in table and not table[group]:
                del table[group]

    def _forget_resets(self, part: int, name: str) -> None:
        self._pending_resets = {queue: offset for queue, offset in self._pending_resets.items() if queue[part] != name}
        self._delivered_resets = {
            queue: delivered for queue, delivered in self._delivered_resets.items() if queue[part] != name
        }

    def _pairs(self) -> Iterator[tuple[str, ById[int]]]:
        for group, topics in self._committed.items():
            for topic, queues in topics.items():
                yield f"{topic}{_SEPARATOR}{group}", ById(queues)

    def table(self) -> ConsumerOffsetTable:
        """Return the table as it is saved."""
        version = TableVersion(
            counter=self._version.counter + self.changes, state_version=0, timestamp=self._version.timestamp
        )
        return ConsumerOffsetTable(version=version, offsets=dict(self._pairs()))


def _pair_bytes(group: str, topic: str) -> int:
    return len(group) + len(topic) + _PAIR_BYTES
