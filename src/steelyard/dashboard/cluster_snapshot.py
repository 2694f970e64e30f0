"""The newest known state of the whole cluster: what overview, topics and groups show. Pure.

Times are milliseconds since the epoch, and each row says when it was polled: the rows of one snapshot are not of one
moment. What is unknown, or needs two polls and was polled once, is None.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from steelyard.client.admin.brokers import BrokerThroughput
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topic_plan import describe_permission
from steelyard.client.admin.topics import TopicDescription, TopicSummary
from steelyard.client.times import to_epoch_ms
from steelyard.model.finding import Finding
from steelyard.model.reserved_names import RETRY_PREFIX


class ServerRow(Struct, frozen=True, kw_only=True):
    """A server: a broker's master, or one of its replicas."""

    name: str
    id: int  # 0 is the master
    cluster: str
    address: str
    version: str | None = None  # the protocol level
    product: str | None = None  # name and release, of our brokers
    up_ms: int | None = None
    in_rate: float | None = None  # messages stored per second
    out_rate: float | None = None  # messages delivered per second
    disk_used: float | None = None  # the share of its disk that is full, from 0 to 1
    refusal: str | None = None  # why it rejects messages
    answer_ms: int | None = None  # how long it took to report that
    problem: str | None = None  # why it does not answer


class TopicRow(Struct, frozen=True, kw_only=True):
    """A topic in a list."""

    name: str
    kind: str  # users, retry, dead letters or system
    queues: int
    brokers: tuple[str, ...]
    permission: str  # what clients may do: read, write
    groups: tuple[str, ...] = ()  # its readers, of the groups that were polled
    messages: int | None = None
    in_rate: float | None = None  # messages stored per second, between the last two polls
    stored_ms: int | None = None  # when the last message was stored
    at_ms: int | None = None  # when its queues were polled; None: not yet


class GroupRow(Struct, frozen=True, kw_only=True):
    """A group in a list. Until its first poll only its name is known."""

    name: str
    members: int | None = None  # how many are online
    kind: str | None = None  # push, pull or pop; None while no member is online
    broadcast: bool = False
    strategy: str | None = None
    topics: tuple[str, ...] = ()  # its topics, without its retry topic
    queues: int | None = None  # how many it reads, without those of its retry topic; None if unknown
    lag: int | None = None  # None for a broadcast group, of which every member keeps its own offsets
    out_rate: float | None = None  # messages consumed per second, between the last two polls
    dead_letters: int | None = None  # its number of dead letters; None if that was not polled
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is unknown
    at_ms: int | None = None  # when it was polled; None: not yet


class WarningRow(Struct, frozen=True):
    """Something that looks wrong, in a sentence, and what it is about."""

    subject: str  # broker, topic, group or dead letters
    name: str  # its name
    kind: str  # a stable word for the problem, the same for all that have it
    sentence: str
    is_severe: bool = False  # whether messages are lost, late or rejected because of it
    evidence: Mapping[str, float] = field(default_factory=dict)  # the numbers behind it, by name


class RatePoint(Struct, frozen=True, array_like=True):
    """A moment of the last minutes."""

    at_ms: int
    in_rate: float | None
    out_rate: float | None
    lag: int | None


class DashboardSnapshot(Struct, frozen=True, kw_only=True):
    """Everything that was polled."""

    at_ms: int  # when brokers were polled
    brokers: tuple[ServerRow, ...] = ()
    topics: Mapping[str, TopicRow] = field(default_factory=dict)
    groups: Mapping[str, GroupRow] = field(default_factory=dict)
    warnings: tuple[WarningRow, ...] = ()  # all warnings, the severe ones first
    points: tuple[RatePoint, ...] = ()  # the last minutes, oldest first
    notes: tuple[str, ...] = ()  # what the cluster does not report
    groups_seen_ms: int | None = None  # when the oldest row was polled; None while some were not polled at all
    topics_seen_ms: int | None = None  # the same for topics


def server_row(flow: BrokerThroughput, in_rate: float | None, out_rate: float | None) -> ServerRow:
    """Make the row of a server; its rates are measured, or else what it reports."""
    return ServerRow(
        name=flow.broker,
        id=flow.id,
        cluster=flow.cluster,
        address=flow.address,
        version=flow.version,
        product=flow.product,
        up_ms=None if flow.up is None else round(flow.up.total_seconds() * 1_000),
        in_rate=flow.in_tps if in_rate is None else in_rate,
        out_rate=flow.out_tps if out_rate is None else out_rate,
        disk_used=flow.disk_used,
        refusal=flow.refusal,
        answer_ms=flow.took_ms,
        problem=flow.problem,
    )


def topic_row(listed: TopicSummary, view: TopicDescription | None, rate: float | None, at_ms: int | None) -> TopicRow:
    """Make the row of a topic that was listed, and perhaps polled, without its readers."""
    return TopicRow(
        name=listed.name,
        kind=listed.kind.value,
        queues=listed.queues,
        brokers=listed.brokers,
        permission=describe_permission(listed.permission),
        messages=None if view is None else view.messages,
        in_rate=rate,
        stored_ms=None if view is None else _stored_ms(view),
        at_ms=at_ms,
    )


def group_row(
    view: GroupDescription, warnings: Iterable[Finding], notes: tuple[str, ...], rate: float | None
) -> GroupRow:
    """Make the row of a group that was polled."""
    users = [each for each in view.queues if not each.queue.topic.startswith(RETRY_PREFIX)]
    return GroupRow(
        name=view.group,
        members=len(view.members),
        kind=view.kind,
        broadcast=view.broadcast,
        strategy=view.strategy,
        topics=tuple(dict.fromkeys(each.queue.topic for each in users)),
        queues=len(users) or None,
        lag=None if view.broadcast else view.lag,
        out_rate=None if view.broadcast else rate,
        warnings=tuple(map(str, warnings)),
        notes=notes,
        at_ms=view.at_ms,
    )


def _stored_ms(view: TopicDescription) -> int | None:
    stored = view.stored_at
    return None if stored is None else to_epoch_ms(stored)
