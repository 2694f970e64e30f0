"""What groups wanted before a restart: their pulls are served at once, and not only after their next heartbeats.

Java's members up to 5.x send a heartbeat every 30 s and no earlier when a broker comes back; till then Apache refuses
their pulls (24). Here the subscriptions of all live groups are saved, and count while their members may still be on the
way back: until each has had the time after which a silent one is gone.

A pull says by its version how new its member's subscription is. What was saved serves only those that are no newer, and
nothing is saved of a group whose members disagree. Left out: who the members were. Nobody is registered by this.
"""

from collections.abc import Iterable, Mapping

from steelyard.broker.members import MemberGroup
from steelyard.wire.bodies.groups import KeptSubscription, SubscriptionTable

__all__ = ["KeptSubscriptions"]

_MOST_BYTES = 4 * 1024 * 1024
_ENTRY_BYTES = 100
"""What an entry has besides its names and its expression, about."""


class KeptSubscriptions:
    """The subscriptions of the time before the start."""

    def __init__(self, saved: SubscriptionTable | None, until_ms: int) -> None:
        self._groups: Mapping[str, Mapping[str, KeptSubscription]] = {} if saved is None else saved.groups
        self._until_ms = until_ms
        self.changes = 0
        """Grows when what was kept is forgotten."""

    def get(self, group: str, topic: str) -> KeptSubscription | None:
        """Return what a group wanted of a topic, if that may still count."""
        return self._groups.get(group, {}).get(topic)

    def forget(self, group: str) -> None:
        """Forget a group that was deleted."""
        if group in self._groups:
            self._groups = {name: wanted for name, wanted in self._groups.items() if name != group}
            self.changes += 1

    def tick(self, now_ms: int) -> None:
        """Forget everything once all members have had the time to come back."""
        if self._groups and now_ms >= self._until_ms:
            self._groups = {}
            self.changes += 1

    def table(self, live: Iterable[MemberGroup]) -> SubscriptionTable:
        """Return what is to be saved: what groups want now, and what those wanted that may still come back."""
        groups = {name: dict(wanted) for name, wanted in self._groups.items()}
        for group in live:
            if not group.wants.agree:
                groups.pop(group.name, None)
                continue
            wanted = groups.setdefault(group.name, {})
            for topic, each in group.subscriptions.items():
                before = wanted.get(topic)
                if before is None or each.version >= before.version:
                    wanted[topic] = KeptSubscription(kind=each.kind, expression=each.expression, version=each.version)
        return SubscriptionTable(groups=_bounded(groups))


def _bounded(groups: Mapping[str, Mapping[str, KeptSubscription]]) -> dict[str, Mapping[str, KeptSubscription]]:
    """Leave groups out that are too much for one file: theirs wait for a heartbeat."""
    left, kept = _MOST_BYTES, {}
    for name, wanted in groups.items():
        size = sum(len(name) + len(topic) + len(each.expression) + _ENTRY_BYTES for topic, each in wanted.items())
        if size <= left:
            left -= size
            kept[name] = wanted
    return kept
