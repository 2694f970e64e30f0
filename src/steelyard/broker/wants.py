"""What a group wants: for each topic the newest subscription that any member has, and whether the members agree.

Apache keeps one table a group, and every heartbeat overwrites it: members that differ take each other's topics away,
again and again. Here a topic stays as long as one member wants it, and an older version never replaces a newer one.
Versions do not count when members are compared, nor does the order of tags, nor the topic of retries.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from steelyard.model import FilterKind, plain_tags
from steelyard.model.names import RETRY
from steelyard.wire.bodies.heartbeat import SubscriptionBody

__all__ = ["Shape", "Subscriptions", "Wants", "by_topic", "shape_of", "weight_of"]

Subscriptions: TypeAlias = Mapping[str, SubscriptionBody]
"""What one member wants, by topic."""

Shape: TypeAlias = frozenset[tuple[str, str, str]]
"""What is compared between members: topic, kind and expression of each subscription."""

T = TypeVar("T")

_TAG = FilterKind.TAG.value


def by_topic(subscriptions: Iterable[SubscriptionBody]) -> dict[str, SubscriptionBody]:
    """Return subscriptions by their topics; of two for one topic the newer one counts."""
    found: dict[str, SubscriptionBody] = {}
    for each in subscriptions:
        known = found.get(each.topic)
        if known is None or each.version > known.version:
            found[each.topic] = each
    return found


def shape_of(subscriptions: Subscriptions) -> Shape:
    """Return what two members must have in common to agree.

    >>> a, b = (SubscriptionBody(topic="t", expression=text, version=n) for n, text in enumerate(("A || B", "B||A")))
    >>> shape_of({"t": a}) == shape_of({"t": b})
    True
    """
    return frozenset(
        (topic, each.kind or _TAG, _plain(each)) for topic, each in subscriptions.items() if not topic.startswith(RETRY)
    )


def _plain(wanted: SubscriptionBody) -> str:
    return wanted.expression if (wanted.kind or _TAG) != _TAG else plain_tags(wanted.expression)


def weight_of(subscriptions: Subscriptions) -> int:
    """Return about how many bytes subscriptions take, to bound what all clients together can make us keep."""
    return sum(
        500 + len(each.topic) + len(each.expression) + 40 * len(each.hashes) + sum(60 + len(tag) for tag in each.tags)
        for each in subscriptions.values()
    )


class Wants:
    """The subscriptions of a group's members, put together."""

    def __init__(self) -> None:
        self.newest: dict[str, SubscriptionBody] = {}
        """By topic: what a pull that brings no subscription of its own is judged by."""
        self._wanted: dict[str, dict[SubscriptionBody, int]] = {}
        self._shapes: dict[Shape, int] = {}

    @property
    def agree(self) -> bool:
        """Whether all members want the same."""
        return len(self._shapes) <= 1

    @property
    def usual(self) -> Shape | None:
        """What most members want, or None in a group without members."""
        return max(self._shapes, key=lambda shape: self._shapes[shape], default=None)

    def add(self, wanted: Subscriptions, shape: Shape) -> None:
        """Take in what a member wants."""
        self._shapes[shape] = self._shapes.get(shape, 0) + 1
        for topic, each in wanted.items():
            counts = self._wanted.setdefault(topic, {})
            counts[each] = counts.get(each, 0) + 1
            known = self.newest.get(topic)
            if known is None or each.version > known.version:
                self.newest[topic] = each

    def remove(self, wanted: Subscriptions, shape: Shape) -> None:
        """Forget what a member wanted."""
        _take_one(self._shapes, shape)
        for topic, each in wanted.items():
            counts = self._wanted[topic]
            _take_one(counts, each)
            if not counts:
                del self._wanted[topic], self.newest[topic]
            elif each == self.newest[topic] and each not in counts:
                self.newest[topic] = max(counts, key=_version)


def _take_one(counts: dict[T, int], what: T) -> None:
    counts[what] -= 1
    if not counts[what]:
        del counts[what]


def _version(wanted: SubscriptionBody) -> int:
    return wanted.version
