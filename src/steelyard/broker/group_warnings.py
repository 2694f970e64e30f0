"""Group warnings: what looks wrong in a group, for member lists, metrics and the broker's log.

Nothing here refuses anything. A group with a warning works, but not as its owner thinks: messages are handled twice,
queues stay unread, or messages match no filter of the member that owns their queue.

A client id with several connections is listed once (consumer_registry.py), so all of them read the same queues, and no
queue stays unread as on Apache's brokers, which list it once per connection: handling a message twice does less harm
than not handling it. Left out: members that are all ours and subscribe to different topics. They share each topic among
its subscribers, and report the rest themselves (balance/group/diagnostics.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from steelyard.broker.consumer_registry import ConsumerGroup
from steelyard.broker.subscriptions import SubscriptionSignature
from steelyard.model import ExpressionType
from steelyard.model.finding import Finding

_MAX_NAMED = 5
T = TypeVar("T")


def find_warnings(group: ConsumerGroup) -> list[Finding]:
    """List the warnings about a group."""
    if len(group.members) == 1 and all(len(member.connections) < 2 for member in group.members.values()):
        return [*_stalled_queues(group)]  # the usual case on a broker with many groups
    return [*_duplicate_ids(group), *_unequal_subscriptions(group), *_mixed_models(group), *_stalled_queues(group)]


def _duplicate_ids(group: ConsumerGroup) -> Iterator[Finding]:
    for client_id in group.ids:
        member = group.members[client_id]
        if member.has_duplicate_id:
            addresses = " and ".join(each.peer.address for each in member.connections.values())
            yield Finding(
                f"twice {client_id}",
                f"group {group.name} has the client id {client_id} on several connections, {addresses}: if these are "
                "different processes they read the same queues, and each handles all their messages; "
                "give each an id of its own",
            )


def _unequal_subscriptions(group: ConsumerGroup) -> Iterator[Finding]:
    if group.member_subscriptions.are_equal:
        return
    # Broadcasting members share no queues.
    clustering = [group.members[each] for each in group.ids if not group.members[each].is_broadcasting]
    signatures = {member.id: member.signature for member in clustering if member.signature is not None}
    topics = {each: frozenset(topic for topic, _, _ in signature) for each, signature in signatures.items()}
    odd, usual = _outliers(topics, frozenset())
    if odd and not all(member.is_steelyard for member in clustering):
        unlike = sorted({topic for each in odd for topic in topics[each] ^ usual})
        yield Finding(
            "unequal topics",
            f"members of group {group.name} subscribe to other topics than most ({_join_names(odd)}, in "
            f"{_join_names(unlike)}): all topics are shared among all members, since some are not Steelyard's, so "
            "queues of a topic that go to a member without it stay unread; give all members the same topics",
        )
    for topic in sorted({topic for mine in topics.values() for topic in mine}):
        yield from _unequal_filters(group.name, topic, signatures)


def _unequal_filters(group: str, topic: str, signatures: Mapping[str, SubscriptionSignature]) -> Iterator[Finding]:
    filters = {
        each: expression if kind == ExpressionType.TAG.value else f"{kind} {expression}"
        for each, signature in signatures.items()
        for name, kind, expression in signature
        if name == topic
    }
    odd, usual = _outliers(filters, "*")
    if odd:
        theirs = sorted({filters[each] for each in odd})
        yield Finding(
            f"unequal filters {topic}",
            f"members of group {group} filter {topic} differently ({_join_names(odd)} by {_join_names(theirs)}, most "
            f"by {usual}): messages that the owner of a queue does not match are skipped; "
            "give all the same filter",
        )


def _outliers(by_member: Mapping[str, T], default: T) -> tuple[list[str], T]:
    """Return the members that differ from most, and what most have; of two equally usual, the first one."""
    usual = max(by_member.values(), key=Counter(by_member.values()).__getitem__, default=default)
    return [member for member, mine in by_member.items() if mine != usual], usual


def _mixed_models(group: ConsumerGroup) -> Iterator[Finding]:
    broadcasting = [group.members[each] for each in group.ids if group.members[each].is_broadcasting]
    if broadcasting and len(broadcasting) < len(group.members):
        yield Finding(
            "mixed",
            f"group {group.name} has clustering and broadcasting members: "
            f"{_join_names([member.id for member in broadcasting])} are broadcasting; use two groups",
        )


def _stalled_queues(group: ConsumerGroup) -> Iterator[Finding]:
    for client_id in group.ids:
        for sentence in group.members[client_id].stalled_queues:
            yield Finding(f"stopped {sentence}", f"group {group.name}: {sentence}")


def _join_names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
