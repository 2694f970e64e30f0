"""Group description: a live group as one value, with its members, queue owners, lag and findings.

The owner of a queue: on our brokers its lock decides. Elsewhere, and for members that are not ours, members report it
themselves: then a queue may be claimed by two, or by none, and both are shown.

Brokers know the connections of members (203); ours also know their strategy and subscriptions. Only the member itself
knows what it holds: a broker forwards the request to it (307).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from steelyard.balance.assignors import AssignmentPlan, Strategy, StrategyFunction, find_strategy, plan
from steelyard.balance.assignors.explain import Explanation, explain
from steelyard.balance.assignors.strategy import uses_owners
from steelyard.balance.group.diagnostics import (
    ProgressSample,
    duplicate_ids,
    idle_members,
    stalled_queues,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.balance.group.options import is_steelyard_id
from steelyard.client.admin.admin_session import AdminSession, check_ok
from steelyard.client.namespace import ClientNamespace
from steelyard.client.times import from_epoch_ms
from steelyard.errors import ConfigurationError, ConsumerOffline, SteelyardError, error_for
from steelyard.model import BrokerAddresses, Queue, sort_names, sort_queues, utf16_units
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_time, pluralize
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerRunningState
from steelyard.wire.codes import RequestCode, ResponseCode, release_name
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import GetConsumerRunningState

_JAVA_STRATEGY = "AVG"
_MAX_NAMED = 12
_STARTED = "PROP_CONSUMER_START_TIMESTAMP"
_MEMBER_TIMEOUT_MS = 3_000
"""How long a member may take to answer: Apache's brokers would wait ten seconds, and block a thread meanwhile."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, as its brokers know it; what they do not know is None or empty."""

    id: str
    address: str = ""
    language: str = ""
    release: str = ""
    ours: bool = False
    """Whether it is one of Steelyard's."""
    strategy: str | None = None
    topics: tuple[str, ...] | None = None
    """What it subscribes to, without the retry topic; None where that is not known."""
    filters: Mapping[str, str] | None = None
    """Its filter of each of them, tags or an expression; None where that is not known."""
    leaving: bool = False
    brokers: tuple[str, ...] = ()
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """A queue that the group reads: its owner, and the group's offset."""

    queue: Queue
    owners: tuple[str, ...] = ()
    """One, if all is well."""
    committed: int | None = None
    end: int | None = None
    consumed_at: datetime | None = None
    owned_at: datetime | None = None
    """Since when its owner has it; only our members report that."""

    @property
    def owner(self) -> str | None:
        """Its owner; None if it has none or several."""
        return self.owners[0] if len(self.owners) == 1 else None

    @property
    def lag(self) -> int | None:
        """The lag in messages; None where that is not known."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What was collected about a group."""

    group: str
    at_ms: int
    members: tuple[MemberDescription, ...] = ()
    broadcast: bool = False
    kind: str | None = None
    """How it gets its messages: push, pull or pop."""
    topics: frozenset[str] = frozenset()
    queues: tuple[Queue, ...] = ()
    locked: Mapping[Queue, str] = field(default_factory=dict)
    """Owners of queues by the locks of our brokers."""
    our_brokers: frozenset[str] = frozenset()
    claimed: Mapping[str, frozenset[Queue]] = field(default_factory=dict)
    """The queues that members report to own."""
    owned_at: Mapping[tuple[str, Queue], datetime] = field(default_factory=dict)
    """Since when members own their queues, as they report."""
    progress: Mapping[Queue, ProgressSample] = field(default_factory=dict)
    consumed: Mapping[Queue, datetime] = field(default_factory=dict)
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids that each broker lists, as it lists them."""
    reported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The findings of each of our brokers and members."""
    notes: tuple[str, ...] = ()
    """What could not be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group at one moment. ``print`` it, or use its fields.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> member = MemberDescription("c1@sy1", "10.0.0.1:5000", ours=True, strategy="STICKY")
    >>> facts = GroupFacts(group="billing", at_ms=0, members=(member,), queues=(queue,), locked={queue: "c1@sy1"},
    ...               our_brokers=frozenset({"broker-a"}), progress={queue: ProgressSample(0, 5, 9)})
    >>> print(describe_group(facts))
    group billing has 1 member and 1 queue of orders, strategy STICKY; lag 4
    c1@sy1 at 10.0.0.1:5000 has 1 queue with 4 messages: orders@broker-a:0
    """

    group: str
    at_ms: int
    broadcast: bool
    kind: str | None
    strategy: str | None
    """The assignment strategy of its members; None where they do not report it."""
    members: tuple[MemberDescription, ...]
    queues: tuple[GroupQueue, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    samples: Mapping[Queue, tuple[ProgressSample, ...]] = field(repr=False)
    """Since when the offset of each queue has not changed: carried from description to description."""

    @property
    def lag(self) -> int:
        """The lag of all queues, in messages."""
        return sum(each.lag or 0 for each in self.queues)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return tuple(dict.fromkeys(each.queue.topic for each in self.queues))

    def owned(self) -> AssignmentPlan:
        """Return the queues of each member."""
        mine: AssignmentPlan = {member.id: [] for member in self.members}
        for each in self.queues:
            for owner in each.owners:
                mine.setdefault(owner, []).append(each.queue)
        return mine

    def __str__(self) -> str:
        """Return it as sentences, one a line: the summary, its members, findings and notes."""
        members = (_member_line(self, member) for member in self.members)
        return "\n".join([_summary_line(self), *members, *(each.message for each in self.findings), *self.notes])


def describe_group(facts: GroupFacts, earlier: GroupDescription | None = None) -> GroupDescription:
    """Describe a group from facts; with an ``earlier`` description stalled queues are found."""
    owners = _owners(facts)
    rows = []
    for queue in sort_queues(facts.queues):
        progress, mine = facts.progress.get(queue), owners.get(queue, ())
        committed, end = (None, None) if progress is None else (progress.committed, progress.end)
        owned_at = facts.owned_at.get((mine[0], queue)) if len(mine) == 1 else None
        rows.append(GroupQueue(queue, mine, committed, end, facts.consumed.get(queue), owned_at))
    before = {} if earlier is None else earlier.samples
    samples = {queue: _samples(before.get(queue, ()), now) for queue, now in facts.progress.items()}
    members = tuple(sorted(facts.members, key=lambda member: utf16_units(member.id)))
    view = GroupDescription(
        group=facts.group,
        at_ms=facts.at_ms,
        broadcast=facts.broadcast,
        kind=facts.kind,
        strategy=effective_strategy(members),
        members=members,
        queues=tuple(rows),
        findings=(),
        notes=facts.notes,
        samples=samples,
    )
    return replace(view, findings=tuple(_findings(facts, view)))


def _owners(facts: GroupFacts) -> dict[Queue, tuple[str, ...]]:
    """Return the owners of each queue: by its lock for our members, by their own report for all others."""
    ours = {member.id for member in facts.members if member.ours}
    found: dict[Queue, list[str]] = {queue: [owner] for queue, owner in facts.locked.items()}
    for member in sort_names(facts.claimed):
        for queue in facts.claimed[member]:
            believed = member not in ours or queue.broker not in facts.our_brokers
            if believed and member not in found.get(queue, ()):
                found.setdefault(queue, []).append(member)
    return {queue: tuple(members) for queue, members in found.items()}


def _samples(before: tuple[ProgressSample, ...], now: ProgressSample) -> tuple[ProgressSample, ...]:
    """Return the sample since which an offset has not changed, and the present one: never more than two."""
    if before and before[0].committed == now.committed and before[0].end > before[0].committed:
        return before[0], now
    return (now,)


def effective_strategy(members: Iterable[MemberDescription]) -> str | None:
    """Return the strategy of these members: one that is not ours makes all of them use Java's."""
    staying = [member for member in members if not member.leaving]
    if any(not member.ours for member in staying):
        return _JAVA_STRATEGY
    strategies = Counter(member.strategy for member in staying if member.strategy)
    return strategies.most_common(1)[0][0] if strategies else None


def _findings(facts: GroupFacts, view: GroupDescription) -> Iterable[Finding]:
    """Find what looks wrong. Our brokers know better for their own part, since they see the connections."""
    reported = dict.fromkeys(message for messages in facts.reported.values() for message in messages)
    yield from (Finding(message, message) for message in reported)
    if not view.members or view.broadcast:
        return
    listed = [ids for broker, ids in facts.listed.items() if broker not in facts.our_brokers]
    # Every broker of the group lists the same; it is reported once.
    yield from dict.fromkeys(each for ids in listed for each in duplicate_ids(facts.group, ids))
    topics = {member.id: member.topics for member in view.members if member.topics is not None}
    if len(topics) == len(view.members):
        if not facts.our_brokers:
            yield from unequal_subscriptions(facts.group, topics)
            yield from unequal_filters(
                facts.group, {member.id: member.filters for member in view.members if member.filters is not None}
            )
        elif all(member.ours for member in view.members):
            yield from unequal_subscriptions(facts.group, topics, by_subscribers=True)
    yield from unequal_strategies(
        facts.group, {member.id: member.strategy for member in view.members if member.strategy}
    )
    yield from _foreign_members(view)
    if facts.claimed or facts.locked:
        yield from _idle_members(view)
        owned = [each.queue for each in view.queues if each.owners]
        yield from unowned_queues(facts.group, facts.queues, owned)
    yield from _claimed_twice(view)
    owner = {each.queue: each.owner for each in view.queues if each.owner is not None}
    yield from stalled_queues(facts.group, view.samples, owner)


def _idle_members(view: GroupDescription) -> Iterable[Finding]:
    """Find members for which there is no queue; while there are enough, one without is joining or leaving."""
    staying = {member.id for member in view.members if not member.leaving}
    users = [each for each in view.queues if not each.queue.topic.startswith(RETRY_PREFIX)]
    if len(staying) > len(users):
        shares = {name: [each.queue for each in users if name in each.owners] for name in staying}
        yield from idle_members(view.group, shares)


def _foreign_members(view: GroupDescription) -> Iterable[Finding]:
    foreign = [member.id for member in view.members if not member.ours]
    if foreign and len(foreign) < len(view.members):
        yield Finding(
            "foreign members",
            f"group {view.group} has members of other clients ({_join_some(foreign)}), so all of them share queues as "
            f"Java does, by {_JAVA_STRATEGY}, and more queues move than need to",
            Severity.WARNING,
        )


def _claimed_twice(view: GroupDescription) -> Iterable[Finding]:
    for each in view.queues:
        if len(each.owners) > 1:
            yield Finding(
                f"claimed twice {each.queue}",
                f"{each.queue} is read by {' and '.join(each.owners)} in group {view.group}: its messages are handled "
                "twice; wait for the rebalance to end, then check the members' ids, strategies and subscriptions",
            )


def _summary_line(view: GroupDescription) -> str:
    members = pluralize(len(view.members), "member")
    topics = [topic for topic in view.topics if not topic.startswith(RETRY_PREFIX)]
    retries = sum(each.queue.topic.startswith(RETRY_PREFIX) for each in view.queues)
    queues = pluralize(len(view.queues) - retries, "queue") + (f" of {_join_some(topics)}" if topics else "")
    queues += f" (and {retries} of retries)" if retries else ""
    how = ", each member reads all" if view.broadcast else f", strategy {view.strategy}" if view.strategy else ""
    return f"group {view.group} has {members} and {queues}{how}; lag {view.lag:,}"


def _member_line(view: GroupDescription, member: MemberDescription) -> str:
    mine = [each for each in view.queues if member.id in each.owners]
    what = [f"{member.id}{f' at {member.address}' if member.address else ''}"]
    if not member.ours:
        what.append(f" ({' '.join(filter(None, ('not ours', member.language, member.release)))})")
    if member.leaving:
        what.append(", which is about to leave,")
    waiting = sum(each.lag or 0 for each in mine)
    what.append(f" has {pluralize(len(mine), 'queue')}")
    if mine:
        what.append(f" with {pluralize(waiting, 'message')}: {_join_some([each.queue for each in mine])}")
    if member.started_at is not None:
        what.append(f"; there since {format_time(member.started_at, UTC)}")
    return "".join(what)


def _join_some(items: Sequence[object]) -> str:
    """Join the first items, and count the rest."""
    more = len(items) - _MAX_NAMED
    return ", ".join(map(str, items[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def dry_run_rebalance(
    view: GroupDescription,
    *,
    join: Iterable[str] = (),
    leave: Iterable[str] = (),
    strategy: str | Strategy | StrategyFunction | None = None,
) -> Explanation:
    """Compute what joining or leaving members, or another strategy, would move; nothing is requested or changed.

    A joining member counts as one of ours that subscribes to all topics. Members that are not ours, if any stay, make
    all use Java's strategy, unless one is given.
    """
    joining, leaving = list(dict.fromkeys(join)), set(leave)
    there = {member.id: member for member in view.members}
    unknown = [name for name in leaving if name not in there]
    if unknown:
        raise ConfigurationError(
            f"{', '.join(sorted(unknown))} cannot leave group {view.group}: no member has that id",
            next_step=f"its members are {_join_some(list(there)) or 'none'}",
        )
    if twice := [name for name in joining if name in there]:
        raise ConfigurationError(
            f"{', '.join(twice)} cannot join group {view.group}: it is there already", next_step="give another id"
        )
    staying = [member for member in view.members if member.id not in leaving and not member.leaving]
    members = [*staying, *(MemberDescription(name, ours=True) for name in joining)]
    chosen = _choose_strategy(view, members, strategy)
    previous = view.owned()
    after: AssignmentPlan = {member.id: [] for member in members}
    for sharers, queues in _queues_by_sharers(view, members, chosen):
        for name, mine in plan(chosen, view.group, queues, sharers, previous=previous).items():
            after[name] += mine
    return explain(previous, after, [each.queue for each in view.queues])


def _choose_strategy(
    view: GroupDescription, members: list[MemberDescription], strategy: str | Strategy | StrategyFunction | None
) -> Strategy:
    if strategy is not None:
        return find_strategy(strategy)
    name = effective_strategy(members) or view.strategy
    if name is None:
        raise ConfigurationError(
            f"no member of group {view.group} reports its strategy", next_step="give strategy, such as sticky"
        )
    try:
        return find_strategy(name)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"group {view.group} has strategy {name}, which cannot be tried out here ({error.what})",
            next_step="give the strategy itself, or another one",
        ) from None


def _queues_by_sharers(
    view: GroupDescription, members: list[MemberDescription], strategy: Strategy
) -> Iterable[tuple[list[str], list[Queue]]]:
    """Return queues with the members that share them, as members do it (balance/group/assignment.py)."""
    has_foreign = any(not member.ours for member in members)
    together: dict[tuple[tuple[str, ...], str], list[Queue]] = {}
    for topic in sort_names(view.topics):
        sharers = tuple(
            member.id
            for member in members
            if has_foreign or member.topics is None or topic in member.topics or topic.startswith(RETRY_PREFIX)
        )
        if sharers:
            key = sharers, "" if uses_owners(strategy) and not has_foreign else topic
            together.setdefault(key, []).extend(each.queue for each in view.queues if each.queue.topic == topic)
    return [(list(sharers), queues) for (sharers, _), queues in together.items()]


@dataclass(frozen=True, slots=True)
class MemberQueue:
    """A queue that a member holds."""

    queue: Queue
    committed: int
    waiting: int
    """Messages that it has pulled and not handled."""
    leaving: bool
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
                address, release = connection.client_address or "", release_name(connection.version)
                known = MemberDescription(name, address, connection.language or "", release, is_steelyard_id(name))
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
    session: AdminSession,
    group: str,
    member: MemberDescription,
    places: Mapping[str, BrokerAddresses],
    *,
    stacks: bool = False,
) -> ConsumerRunningState:
    """Request the state of a member through the first of its brokers that answers."""
    code, fields = (
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        GetConsumerRunningState(group, member.id, jstack_enable=stacks),
    )
    last: SteelyardError = ConsumerOffline(server=str(session.config), what="it is registered nowhere")
    for broker in member.brokers:
        try:
            answer = await session.request(places[broker], code, fields, timeout_ms=_MEMBER_TIMEOUT_MS)
            return decode_body(ConsumerRunningState, check_ok(answer, broker).body)
        except SteelyardError as error:
            last = error
    raise last


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
