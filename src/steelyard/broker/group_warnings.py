"""Group warnings: the facts that a broker has of a group, for member lists, metrics and the broker's log.

Nothing here refuses anything. A client id with several connections is listed once (consumer_registry.py), so all of
them read the same queues, and no queue stays unread as on Apache's brokers, which list it once per connection. Left
out: members that are all ours and subscribe to different topics. They share each topic among its subscribers, and
report the rest themselves.
"""

from collections.abc import Iterator

from steelyard.broker.consumer_registry import ConsumerGroup
from steelyard.diagnostics import group as rules
from steelyard.model import ExpressionType
from steelyard.model.finding import Finding


def find_warnings(group: ConsumerGroup) -> list[Finding]:
    """List the warnings about a group."""
    members = [group.members[each] for each in group.ids]
    found = []
    # A member alone is the usual case on a broker with many groups.
    if len(members) > 1 or any(len(member.connections) > 1 for member in members):
        for member in members:
            if member.has_duplicate_id:
                addresses = [each.peer.address for each in member.connections.values()]
                found.append(rules.duplicate_connections(group.name, member.id, addresses))
        if not group.member_subscriptions.are_equal:
            found += _unequal_subscriptions(group)
        broadcasting = [member.id for member in members if member.is_broadcasting]
        if 0 < len(broadcasting) < len(members):
            found.append(rules.mixed_models(group.name, broadcasting))
    stalled = (sentence for member in members for sentence in member.stalled_queues)
    return [*found, *(rules.unreadable_message(group.name, sentence) for sentence in stalled)]


def _unequal_subscriptions(group: ConsumerGroup) -> Iterator[Finding]:
    # Broadcasting members share no queues.
    clustering = [group.members[each] for each in group.ids if not group.members[each].is_broadcasting]
    filters = {
        member.id: {
            topic: expression if kind == ExpressionType.TAG.value else f"{kind} {expression}"
            for topic, kind, expression in member.signature
        }
        for member in clustering
        if member.signature is not None
    }
    if not all(member.is_steelyard for member in clustering):
        yield from rules.unequal_subscriptions(group.name, filters)
    yield from rules.unequal_filters(group.name, filters)
