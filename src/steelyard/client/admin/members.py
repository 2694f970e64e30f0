"""Members of a group: which are online, and what one of them does right now.

Brokers know the connections of members (203); ours also know their strategy and subscriptions. Only the member itself
knows what it holds: a broker forwards the request to it (307). Groups are full names here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.balance.group.options import is_steelyard_id
from steelyard.client.admin.admin_session import AdminSession, check_ok
from steelyard.client.admin.group_description import MemberDescription
from steelyard.client.namespace import ClientNamespace
from steelyard.client.times import from_epoch_ms
from steelyard.errors import error_for
from steelyard.model import BrokerAddresses, Queue, sort_names
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerRunningState
from steelyard.wire.codes import RequestCode, ResponseCode, release_name
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import GetConsumerRunningState

__all__ = [
    "MemberQueue",
    "MemberStatus",
    "TopicConsumeRate",
    "consumer_connections",
    "member_filters",
    "member_status",
    "members_in",
    "online_members",
    "running_state",
    "started_at",
    "subscribed_topics",
]

_STARTED = "PROP_CONSUMER_START_TIMESTAMP"
_MEMBER_TIMEOUT_MS = 3_000
"""How long a member may take to answer: Apache's brokers would wait ten seconds, and block a thread meanwhile."""


@dataclass(frozen=True, slots=True)
class MemberQueue:
    """A queue that a member holds."""

    queue: Queue
    committed: int
    waiting: int
    """Messages that it has pulled and not handled."""
    leaving: bool
    """Whether it is giving the queue up."""
    locked: bool
    pulled_at: datetime | None
    consumed_at: datetime | None


@dataclass(frozen=True, slots=True)
class TopicConsumeRate:
    """How fast a member handles a topic."""

    handled_tps: float
    failed_tps: float
    handle_ms: float


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What a member reports about itself."""

    id: str
    queues: tuple[MemberQueue, ...]
    started_at: datetime | None
    topics: Mapping[str, TopicConsumeRate]
    settings: Mapping[str, str]
    subscriptions: Mapping[str, str]
    """The filter of each topic: tags, or an expression."""
    stacks: str | None = None
    """The stacks of its threads, if they were requested and the member sends them."""


async def consumer_connections(
    session: AdminSession, group: str, places: Iterable[BrokerAddresses]
) -> dict[str, ConsumerConnections]:
    """Return the connections of a group at each broker that has some."""
    answers = await session.request_each(places, RequestCode.GET_CONSUMER_CONNECTION_LIST, GroupRequest(group))
    for place, answer in answers:
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE):
            raise error_for(answer.code, answer.remark or "", server=place.name)
    return {
        place.name: decode_body(ConsumerConnections, answer.body)
        for place, answer in answers
        if answer.code == ResponseCode.SUCCESS
    }


async def online_members(
    session: AdminSession, group: str, places: Iterable[BrokerAddresses]
) -> list[MemberDescription]:
    """Return the members of a group that are online."""
    return members_in(session.namespace, await consumer_connections(session, group, places))


def members_in(namespace: ClientNamespace, connections: Mapping[str, ConsumerConnections]) -> list[MemberDescription]:
    """Merge what several brokers know of a group's members."""
    found: dict[str, MemberDescription] = {}
    for broker, body in connections.items():
        extension = body.steelyard
        views = {each.id: each for each in (extension.members or ())} if extension is not None else {}
        for connection in body.connections:
            name = connection.client_id or ""
            view, known = views.get(name), found.get(name)
            if known is None:
                known = MemberDescription(
                    name,
                    connection.client_address or "",
                    connection.language or "",
                    release_name(connection.version),
                    is_steelyard_id(name),
                )
            if view is not None:
                known = replace(
                    known,
                    ours=bool(view.ours),
                    strategy=view.strategy or known.strategy,
                    topics=known.topics if view.topics is None else subscribed_topics(namespace, view.topics),
                    leaving=known.leaving or bool(view.leaving),
                )
            found[name] = replace(known, brokers=tuple(dict.fromkeys((*known.brokers, broker))))
    return [found[name] for name in sort_names(found)]


def subscribed_topics(namespace: ClientNamespace, topics: Iterable[str]) -> tuple[str, ...]:
    """Return a member's topics as users name them, without the retry topic of its group."""
    return tuple(sorted(namespace.unwrap(topic) for topic in topics if not topic.startswith(RETRY_PREFIX)))


def member_filters(namespace: ClientNamespace, state: ConsumerRunningState) -> dict[str, str]:
    """Return a member's filter of each topic, without the retry topic of its group."""
    return {
        namespace.unwrap(each.topic): each.expression
        for each in sorted(state.subscriptions, key=lambda each: each.topic)
        if not each.topic.startswith(RETRY_PREFIX)
    }


async def running_state(
    session: AdminSession, place: BrokerAddresses, group: str, member: str, *, stacks: bool = False
) -> ConsumerRunningState:
    """Request the state of a member through a broker."""
    fields = GetConsumerRunningState(group, member, jstack_enable=stacks)
    answer = await session.request(place, RequestCode.GET_CONSUMER_RUNNING_INFO, fields, timeout_ms=_MEMBER_TIMEOUT_MS)
    return decode_body(ConsumerRunningState, check_ok(answer, place.name).body)


def member_status(namespace: ClientNamespace, member: str, state: ConsumerRunningState) -> MemberStatus:
    """Make the public value of a member's state."""
    return MemberStatus(
        member,
        tuple(
            MemberQueue(
                namespace.unwrap_queue(queue),
                each.commit_offset,
                each.cached_messages,
                each.dropped,
                each.locked,
                from_epoch_ms(each.pulled_ms),
                from_epoch_ms(each.consumed_ms),
            )
            for queue, each in sorted(state.queues.items())
        ),
        started_at(state),
        {
            namespace.unwrap(topic): TopicConsumeRate(each.handled_tps, each.failed_tps, each.handle_ms)
            for topic, each in state.topics.items()
        },
        dict(state.properties),
        member_filters(namespace, state),
        state.thread_dump,
    )


def started_at(state: ConsumerRunningState) -> datetime | None:
    """Return when a member was started, if it reports that."""
    text = state.properties.get(_STARTED, "")
    return from_epoch_ms(int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else None
