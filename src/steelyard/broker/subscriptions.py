"""Subscriptions of a group: for each topic the newest one of any member, and whether the members agree.

Apache keeps one table per group, and every heartbeat overwrites it: members that differ take each other's topics away,
again and again. Here a topic stays as long as one member subscribes to it, and an older version never replaces a newer
one. Versions, the order of tags and the retry topic do not count when members are compared.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from steelyard.model import ExpressionType, normalize_tags
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies.heartbeat import SubscriptionBody

SubscriptionsByTopic: TypeAlias = Mapping[str, SubscriptionBody]
"""The subscriptions of one member, by topic."""

SubscriptionSignature: TypeAlias = frozenset[tuple[str, str, str]]
"""What is compared between members: topic, kind and expression of each subscription."""

T = TypeVar("T")

_TAG = ExpressionType.TAG.value


def newest_by_topic(subscriptions: Iterable[SubscriptionBody]) -> dict[str, SubscriptionBody]:
    """Return subscriptions by topic; of two for one topic the newer one counts."""
    found: dict[str, SubscriptionBody] = {}
    for each in subscriptions:
        known = found.get(each.topic)
        if known is None or each.version > known.version:
            found[each.topic] = each
    return found


def signature_of(subscriptions: SubscriptionsByTopic) -> SubscriptionSignature:
    """Return what two members must have in common to agree.

    >>> a, b = (SubscriptionBody(topic="t", expression=text, version=n) for n, text in enumerate(("A || B", "B||A")))
    >>> signature_of({"t": a}) == signature_of({"t": b})
    True
    """
    return frozenset(
        (topic, each.kind or _TAG, _normalized_expression(each))
        for topic, each in subscriptions.items()
        if not topic.startswith(RETRY_PREFIX)
    )


def _normalized_expression(subscription: SubscriptionBody) -> str:
    return subscription.expression if (subscription.kind or _TAG) != _TAG else normalize_tags(subscription.expression)


def estimate_bytes(subscriptions: SubscriptionsByTopic) -> int:
    """Return the approximate size of subscriptions in memory, to limit those of all clients together."""
    return sum(
        500 + len(each.topic) + len(each.expression) + 40 * len(each.hashes) + sum(60 + len(tag) for tag in each.tags)
        for each in subscriptions.values()
    )


class GroupSubscriptions:
    """The subscriptions of a group's members."""

    def __init__(self) -> None:
        self.newest: dict[str, SubscriptionBody] = {}
        """By topic: the filter of pulls that bring no subscription of their own."""
        self._counts_by_topic: dict[str, dict[SubscriptionBody, int]] = {}
        self._signature_counts: dict[SubscriptionSignature, int] = {}

    @property
    def are_equal(self) -> bool:
        """Whether all members agree."""
        return len(self._signature_counts) <= 1

    def add(self, subscriptions: SubscriptionsByTopic, signature: SubscriptionSignature) -> None:
        """Add the subscriptions of a member."""
        self._signature_counts[signature] = self._signature_counts.get(signature, 0) + 1
        for topic, each in subscriptions.items():
            counts = self._counts_by_topic.setdefault(topic, {})
            counts[each] = counts.get(each, 0) + 1
            known = self.newest.get(topic)
            if known is None or each.version > known.version:
                self.newest[topic] = each

    def remove(self, subscriptions: SubscriptionsByTopic, signature: SubscriptionSignature) -> None:
        """Remove the subscriptions of a member."""
        _decrement(self._signature_counts, signature)
        for topic, each in subscriptions.items():
            counts = self._counts_by_topic[topic]
            _decrement(counts, each)
            if not counts:
                del self._counts_by_topic[topic], self.newest[topic]
            elif each == self.newest[topic] and each not in counts:
                self.newest[topic] = max(counts, key=lambda body: body.version)


def _decrement(counts: dict[T, int], key: T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
