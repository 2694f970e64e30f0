"""When the members of a group are told that something changed: at once, then at most once in a while, never too late.

A storm of joins becomes a few notices. The first goes out at once, and a change that came too soon after a notice is
remembered until the next may go, so that the last change of a storm is always followed by one.
"""

__all__ = ["Notices"]


class Notices:
    """Which groups were told when, and which have to be told again."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms
        self.topics_seen = -1
        """Which change of the topics was looked at last: a topic that gets other queues is a change for its groups."""
        self._told_ms: dict[str, int] = {}
        self._waiting: set[str] = set()

    def changed(self, group: str, now_ms: int) -> bool:
        """Take note of a change; say whether the members are to be told now, else `due` tells when.

        >>> notices = Notices(gap_ms=100)
        >>> notices.changed("g", 0), notices.changed("g", 50), notices.due(90), notices.due(100)
        (True, False, [], ['g'])
        """
        if self._rests(group, now_ms):
            self._waiting.add(group)
            return False
        self._told_ms[group] = now_ms
        self._waiting.discard(group)
        return True

    def _rests(self, group: str, now_ms: int) -> bool:
        told_ms = self._told_ms.get(group)
        # A clock that was set back must not silence a group until it has caught up.
        return told_ms is not None and 0 <= now_ms - told_ms < self._gap_ms

    def due(self, now_ms: int) -> list[str]:
        """Return the groups that changed since they were told, and may be told again; they count as told."""
        found = sorted(group for group in self._waiting if not self._rests(group, now_ms))
        self._waiting.difference_update(found)
        self._told_ms.update(dict.fromkeys(found, now_ms))
        return found

    def forget(self, group: str) -> None:
        """Forget a group that has no members any more."""
        self._told_ms.pop(group, None)
        self._waiting.discard(group)
