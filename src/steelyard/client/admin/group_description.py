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

from msgspec import structs

from steelyard.balance.assignors import AssignmentPlan, Strategy, StrategyFunction, find_strategy, plan
from steelyard.balance.assignors.explain import Explanation, explain
from steelyard.balance.assignors.strategy import uses_owners
from steelyard.balance.group.options import is_steelyard_id
from steelyard.client.admin.admin_session import AdminSession, check_ok
from steelyard.client.namespace import ClientNamespace
from steelyard.client.times import from_epoch_ms
from steelyard.diagnostics import group as rules
from steelyard.diagnostics import thresholds
from steelyard.diagnostics.group import ProgressSample, WaitingQueue, next_lag_samples
from steelyard.errors import ConfigurationError, ConsumerOffline, SteelyardError, error_for
from steelyard.model import BrokerAddresses, Queue, sort_names, sort_queues, utf16_units
from steelyard.model.finding import Finding, worst_first
from steelyard.model.formatting import format_time, pluralize
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerConnections, ConsumerRunningState, RunningHandler
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
    stuck_since: datetime | None = None
    """Since when its messages wait without progress, if that is long."""
    oldest_at: datetime | None = None
    """When the oldest waiting message of a stuck queue was stored, where that is known."""

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
    waiting: Mapping[Queue, WaitingQueue] = field(default_factory=dict)
    """Queues in which messages wait, and since when nothing moves there, as members and our brokers report."""
    failures: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Messages a second for which the handler of a member fails, by member and topic."""
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids that each broker lists, as it lists them."""
    reported: tuple[Finding, ...] = ()
    """The findings of our brokers and of members."""
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
    lag_samples: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    """Times and lags, some time apart: carried along as well."""

    @property
    def lag(self) -> int:
        """How many messages wait in all."""
        return _lag_of(self.queues)

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
        return "\n".join([_summary_line(self), *members, *map(str, self.findings), *self.notes])


def describe_group(facts: GroupFacts, earlier: GroupDescription | None = None) -> GroupDescription:
    """Describe a group from facts; with an ``earlier`` description more is found that takes time to see."""
    owners = _owners(facts)
    before = {} if earlier is None else earlier.samples
    samples = {queue: _samples(before.get(queue, ()), now) for queue, now in facts.progress.items()}
    waiting = _waiting_queues(facts, samples)
    stuck = {queue: each for queue, each in waiting.items() if facts.at_ms - each.stuck_since_ms >= thresholds.STUCK_MS}
    rows = []
    for queue in sort_queues(facts.queues):
        progress, mine = facts.progress.get(queue), owners.get(queue, ())
        committed, end = (None, None) if progress is None else (progress.committed, progress.end)
        owned_at = facts.owned_at.get((mine[0], queue)) if len(mine) == 1 else None
        still = stuck.get(queue)
        stuck_since = None if still is None else from_epoch_ms(still.stuck_since_ms)
        oldest_at = None if still is None or still.oldest_ms is None else from_epoch_ms(still.oldest_ms)
        consumed = facts.consumed.get(queue)
        rows.append(GroupQueue(queue, mine, committed, end, consumed, owned_at, stuck_since, oldest_at))
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
        lag_samples=next_lag_samples(() if earlier is None else earlier.lag_samples, facts.at_ms, _lag_of(rows)),
    )
    return replace(view, findings=tuple(worst_first(_findings(facts, view, waiting))))


def _lag_of(rows: Iterable[GroupQueue]) -> int:
    return sum(each.lag or 0 for each in rows)


def _waiting_queues(
    facts: GroupFacts, samples: Mapping[Queue, tuple[ProgressSample, ...]]
) -> Mapping[Queue, WaitingQueue]:
    """Return the queues with waiting messages: as reported, else as seen since an earlier description."""
    seen = {
        queue: WaitingQueue(queue, each[0].at_ms, each[-1].committed, each[-1].end - each[-1].committed)
        for queue, each in samples.items()
        if len(each) > 1
    }
    return {**seen, **facts.waiting}


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


def _findings(facts: GroupFacts, view: GroupDescription, waiting: Mapping[Queue, WaitingQueue]) -> Iterable[Finding]:
    """Find what looks wrong. Our brokers know better for their own part, since they see the connections."""
    # Every broker that sees it reports it, with other ports.
    yield from {each.kind: each for each in facts.reported}.values()
    if view.broadcast:
        return
    yield from rules.no_members(facts.group, len(view.members), view.lag)
    yield from rules.growing_lag(facts.group, view.lag_samples)
    if not view.members:
        return
    yield from rules.failing_handlers(facts.group, facts.failures)
    listed = [ids for broker, ids in facts.listed.items() if broker not in facts.our_brokers]
    # Every broker of the group lists the same; it is reported once.
    yield from dict.fromkeys(each for ids in listed for each in rules.duplicate_ids(facts.group, ids))
    topics = {member.id: member.topics for member in view.members if member.topics is not None}
    if len(topics) == len(view.members):
        if not facts.our_brokers:
            yield from rules.unequal_subscriptions(facts.group, topics)
            yield from rules.unequal_filters(
                facts.group, {member.id: member.filters for member in view.members if member.filters is not None}
            )
        elif all(member.ours for member in view.members):
            yield from rules.unequal_subscriptions(facts.group, topics, by_subscribers=True)
    yield from rules.unequal_strategies(
        facts.group, {member.id: member.strategy for member in view.members if member.strategy}
    )
    yield from _foreign_members(view)
    if facts.claimed or facts.locked:
        yield from _idle_members(view)
        owned = [each.queue for each in view.queues if each.owners]
        yield from rules.unowned_queues(facts.group, facts.queues, owned)
    for each in view.queues:
        if len(each.owners) > 1:
            yield rules.claimed_twice(view.group, each.queue, each.owners)
    unknown = "" if facts.claimed or facts.locked else "a member"
    owners = {each.queue: who for each in view.queues if (who := " and ".join(each.owners) or unknown)}
    yield from rules.stuck_queues(facts.group, waiting.values(), owners, facts.at_ms)


def _idle_members(view: GroupDescription) -> Iterable[Finding]:
    """Find members for which there is no queue; while there are enough, one without is joining or leaving."""
    staying = {member.id for member in view.members if not member.leaving}
    users = [each for each in view.queues if not each.queue.topic.startswith(RETRY_PREFIX)]
    if len(staying) > len(users):
        shares = {name: [each.queue for each in users if name in each.owners] for name in staying}
        yield from rules.idle_members(view.group, shares)


def _foreign_members(view: GroupDescription) -> Iterable[Finding]:
    foreign = [member.id for member in view.members if not member.ours]
    if foreign and len(foreign) < len(view.members):
        yield rules.foreign_members(view.group, foreign, _JAVA_STRATEGY)


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
    running: tuple[RunningHandler, ...] | None = None
    """Its handlers that run now, those that run for longest first; None if it does not report them."""
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
    running = None if state.steelyard is None else state.steelyard.running
    if running is not None:
        running = tuple(structs.replace(each, queue=namespace.unwrap_queue(each.queue)) for each in running)
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
        running,
        state.thread_dump,
    )


def started_at(state: ConsumerRunningState) -> datetime | None:
    """Return when a member was started, if it reports that."""
    text = state.properties.get(_STARTED, "")
    return from_epoch_ms(int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else None
