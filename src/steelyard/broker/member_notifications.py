"""Member notifications: when the members of a group are notified of a change (NOTIFY_CONSUMER_IDS_CHANGED).

A storm of joins becomes a few notifications. The first is sent at once; a change that comes too soon after one is kept
until the next is allowed, so that the last change of a storm is always followed by one.
"""


class MemberNotifications:
    """Which groups were notified when, and which have to be notified again."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms
        self.topic_changes_seen = -1
        """The last change of the topic table that was checked: a change of queues is a change for subscribed groups."""
        self._notified_ms: dict[str, int] = {}
        self._pending: set[str] = set()

    def record_change(self, group: str, now_ms: int) -> bool:
        """Record a change; return whether to notify the members now, else `due_groups` returns the group later.

        >>> sent = MemberNotifications(gap_ms=100)
        >>> sent.record_change("g", 0), sent.record_change("g", 50), sent.due_groups(90), sent.due_groups(100)
        (True, False, [], ['g'])
        """
        if self._is_throttled(group, now_ms):
            self._pending.add(group)
            return False
        self._notified_ms[group] = now_ms
        self._pending.discard(group)
        return True

    def _is_throttled(self, group: str, now_ms: int) -> bool:
        notified_ms = self._notified_ms.get(group)
        # A clock that was set back must not silence a group until it has caught up.
        return notified_ms is not None and 0 <= now_ms - notified_ms < self._gap_ms

    def due_groups(self, now_ms: int) -> list[str]:
        """Return the groups that have to be notified now; they count as notified."""
        found = sorted(group for group in self._pending if not self._is_throttled(group, now_ms))
        self._pending.difference_update(found)
        self._notified_ms.update(dict.fromkeys(found, now_ms))
        return found

    def forget_group(self, group: str) -> None:
        """Forget a group without members."""
        self._notified_ms.pop(group, None)
        self._pending.discard(group)
