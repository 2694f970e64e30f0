"""How far each group is in each queue: committed offsets, offsets pulled so far, resets that wait for their member."""

from collections.abc import Mapping

from steelyard.wire.bodies.offsets import GroupOffsets

__all__ = ["Offsets"]


class Offsets:
    """The table of offsets, by group and topic. ``changes`` grows with each change."""

    def __init__(self, saved: GroupOffsets | None) -> None:
        self.saved, self.changes = saved, 0

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return what the group committed, or None."""
        raise NotImplementedError

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take a commit as it is."""
        raise NotImplementedError

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return what the group committed in a topic, by queue."""
        raise NotImplementedError

    def topics_of(self, group: str) -> list[str]:
        """List the topics in which the group has offsets."""
        raise NotImplementedError

    def groups_of(self, topic: str) -> list[str]:
        """List the groups that have offsets in a topic."""
        raise NotImplementedError

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where the group's last pull ended, or None."""
        raise NotImplementedError

    def forget_topic(self, topic: str) -> None:
        """Forget all offsets in a topic."""
        raise NotImplementedError

    def forget_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        raise NotImplementedError

    def table(self) -> GroupOffsets:
        """Return the table as it is saved."""
        raise NotImplementedError
