"""Rules for groups: their members, subscriptions, queues, lag and dead letters.

The ``kind`` of a finding stays the same while it lasts, so that it is reported once; its ``message`` names at most a
few members or queues. Facts come from wherever they are known: members find what they see of their own group, our
brokers what only connections show, and an administrator's description of a group everything that both report.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from steelyard.diagnostics import thresholds
from steelyard.model import Queue, normalize_tags, sort_names, sort_queues
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_duration, pluralize
from steelyard.model.reserved_names import CLIENT_ID_SUFFIX

_MAX_NAMED = 5
_TRANSIENT_KINDS = ("unowned queues", "claimed twice")
T = TypeVar("T")


class ActiveFindings:
    """Findings that were reported and still last.

    >>> active = ActiveFindings()
    >>> [[finding.kind for finding in active.update(now)] for now in ([Finding("a", "")], [Finding("a", "")], [])]
    [['a'], [], []]
    """

    def __init__(self) -> None:
        self.active: tuple[Finding, ...] = ()
        """Those of the last update, by kind."""
        self._kinds: frozenset[str] = frozenset()

    def update(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return those that are new since the last update, by kind; those that are missing now have ended."""
        found = {finding.kind: finding for finding in findings}
        new = [found[kind] for kind in sorted(found.keys() - self._kinds)]
        self._kinds = frozenset(found)
        self.active = tuple(found[kind] for kind in sorted(found))
        return new


def is_transient(finding: Finding) -> bool:
    """Say whether a rebalance may cause it: while a queue moves it has no owner for a moment, or two."""
    return finding.kind.startswith(_TRANSIENT_KINDS)


def duplicate_ids(group: str, listed: Collection[str]) -> list[Finding]:
    """Find ids that a broker lists more than once, as Apache brokers do with two connections of one id.

    Java members count a share for each entry, and the owner of the id takes the first of them. Ours count an id once.

    >>> print(duplicate_ids("billing", ["c1", "c2", "c1"])[0])
    group billing lists c1 more than once: it reads only the first of its shares, so queues stay unread, and if \
several processes have this id, each handles the same messages; give each process an id of its own
    """
    twice = [name for name, times in Counter(listed).items() if times > 1]
    what = "it reads only the first of its shares, so queues stay unread, and if several processes have this id, each"
    if all(name.endswith(CLIENT_ID_SUFFIX) for name in listed):
        what = (
            "members count it once and no queue stays unread, but if several processes have this id, and it is not one "
            "with an old connection, each"
        )
    return [
        Finding(
            f"duplicate id: {name}",
            f"group {group} lists {name} more than once: {what} handles the same messages",
            next_step="give each process an id of its own",
        )
        for name in sort_names(twice)
    ]


def duplicate_connections(group: str, client_id: str, addresses: Sequence[str]) -> Finding:
    """Report an id that has several connections to one of our brokers, which lists it once.

    So no queue stays unread: handling a message twice does less harm than not handling it.
    """
    return Finding(
        f"duplicate id: {client_id}",
        f"group {group} has the client id {client_id} on several connections, {' and '.join(addresses)}: if these are "
        "different processes they read the same queues, and each handles all their messages",
        next_step="give each an id of its own",
        evidence=(("connections", len(addresses)),),
    )


def unequal_subscriptions(
    group: str, topics: Mapping[str, Collection[str]], *, by_subscribers: bool = False
) -> list[Finding]:
    """Find members with other topics than most; ``topics`` are those of each member.

    ``by_subscribers`` says that each topic is shared among its subscribers, as Steelyard members do on Steelyard
    brokers. All others share all topics among all members.

    >>> topics = {"c1": ["orders"], "c2": ["orders"], "c3": ["refunds"]}
    >>> print(unequal_subscriptions("billing", topics)[0])
    members of group billing have different subscriptions, other topics than most (c3, in orders, refunds): all topics \
are shared among all members, so queues of a topic that go to a member without it stay unread; give all members the \
same topics
    >>> unequal_subscriptions("billing", topics, by_subscribers=True)[0].kind
    'different topics'
    """
    odd, usual = _outliers({member: frozenset(wanted) for member, wanted in topics.items()}, frozenset())
    if not odd:
        return []
    unlike = {topic for member in odd for topic in usual.symmetric_difference(topics[member])}
    who = (
        f"members of group {group} have different subscriptions, other topics than most ({join_some(odd)}, in "
        f"{join_some(sort_names(unlike))})"
    )
    if by_subscribers:
        what = (
            "each topic is shared among its subscribers and all queues are read, but a failed message may be "
            "redelivered to a member without its topic, which passes it on"
        )
        step = "give all members the same topics, or use several groups"
        return [Finding("different topics", f"{who}: {what}", Severity.WARNING, next_step=step)]
    what = "all topics are shared among all members, so queues of a topic that go to a member without it stay unread"
    return [Finding("unequal subscriptions", f"{who}: {what}", next_step="give all members the same topics")]


def unequal_filters(group: str, filters: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    """Find topics for which members have different filters; ``filters`` are those of each member, by topic.

    >>> print(unequal_filters("billing", {"c1": {"orders": "*"}, "c2": {"orders": "b||a"}})[0])
    members of group billing have different subscriptions to orders (c2 filters by a || b, most by *): messages that \
the owner of a queue does not match are skipped; give all the same filter
    """
    wanted: dict[str, dict[str, str]] = {}
    for member, mine in filters.items():
        for topic, expression in mine.items():
            wanted.setdefault(topic, {})[member] = normalize_tags(expression)
    found = []
    for topic in sort_names(wanted):
        odd, usual = _outliers(wanted[topic], "")
        if odd:
            theirs = sorted({wanted[topic][member] for member in odd})
            filters_by = "filters" if len(odd) == 1 else "filter"
            what = (
                f"members of group {group} have different subscriptions to {topic} ({join_some(odd)} {filters_by} by "
                f"{join_some(theirs)}, most by {usual}): messages that the owner of a queue does not match are skipped"
            )
            found.append(Finding(f"unequal filters: {topic}", what, next_step="give all the same filter"))
    return found


def unequal_strategies(group: str, strategies: Mapping[str, str]) -> list[Finding]:
    """Find members with another strategy than most; their plans do not fit together.

    >>> unequal_strategies("billing", {"c1": "AVG", "c2": "AVG", "c3": "CONFIG"})[0].kind
    'unequal strategies'
    """
    odd, usual = _outliers(strategies, "")
    theirs = sort_names({strategies[member] for member in odd})
    what = f"members of group {group} have different strategies: {join_some(odd)} {join_some(theirs)}, most {usual}"
    step = "give all the same one, or queues have two owners or none"
    return [Finding("unequal strategies", what, next_step=step)] if odd else []


def mixed_models(group: str, broadcasting: Sequence[str]) -> Finding:
    """Report a group with clustering and broadcasting members."""
    who = f"{join_some(broadcasting)} {'is' if len(broadcasting) == 1 else 'are'} broadcasting"
    what = f"group {group} has clustering and broadcasting members: {who}"
    return Finding("mixed models", what, next_step="use two groups")


def foreign_members(group: str, foreign: Sequence[str], strategy: str) -> Finding:
    """Report members of other clients beside ours."""
    return Finding(
        "foreign members",
        f"group {group} has members of other clients ({join_some(foreign)}), so all of them share queues as "
        f"Java does, by {strategy}, and more queues move than need to",
        Severity.WARNING,
    )


def unmatched_entries(group: str, setting: str, keys: Sequence[str]) -> list[Finding]:
    """Find entries of a strategy's setting that match no member.

    >>> print(unmatched_entries("billing", "weights", ["till-3"])[0])
    weights has entries for till-3, and group billing has no such member, so they have no effect; an entry is for the \
name of a member, or for a whole client id (which Steelyard members change with each start)
    """
    what = f"{setting} has entries for {join_some(keys)}, and group {group} has no such member, so they have no effect"
    step = (
        "an entry is for the name of a member, or for a whole client id (which Steelyard members change with each "
        "start)"
    )
    return [Finding(f"unmatched: {setting}", what, next_step=step)] if keys else []


def unresponsive_members(group: str, members: Sequence[str]) -> list[Finding]:
    """Report members that do not answer ownership probes.

    >>> [finding.kind for finding in unresponsive_members("billing", ["c1", "c2"])]
    ['unanswering members']
    """
    what = (
        f"members of group {group} do not answer: {join_some(members)}; they keep the queues that they last reported, "
        "and others keep theirs, until they answer or their broker drops them"
    )
    return [Finding("unanswering members", what, next_step="see whether they hang")] if members else []


def idle_members(group: str, plan: Mapping[str, Collection[Queue]]) -> list[Finding]:
    """Find members that a plan leaves without a queue: there are more members than queues."""
    idle = sort_names(member for member, mine in plan.items() if not mine)
    if not idle:
        return []
    queues = len({queue for mine in plan.values() for queue in mine})
    return [idle_members_finding(group, *idle, members=len(plan), queues=queues)]


def idle_members_finding(group: str, *idle: str, members: int, queues: int) -> Finding:
    """Report members without a queue, in order, because there are more members than queues.

    >>> print(idle_members_finding("billing", "c5", members=5, queues=4))
    group billing has 5 members and 4 queues, so c5 has nothing to do; add queues, or stop some members
    """
    return Finding(
        "idle members",
        f"group {group} has {members} members and {queues} {'queue' if queues == 1 else 'queues'}, "
        f"so {join_some(idle)} {'has' if len(idle) == 1 else 'have'} nothing to do",
        Severity.WARNING,
        next_step="add queues, or stop some members",
        evidence=(("members", members), ("queues", queues)),
    )


def unowned_queues(group: str, queues: Iterable[Queue], owned: Collection[Queue]) -> list[Finding]:
    """Find queues that no member owns; worth reporting only once a rebalance has had its time."""
    unowned = sort_queues(set(queues).difference(owned))
    what = f"no member of group {group} reads {join_some(unowned)}"
    step = "see whether all members have the same subscriptions, strategy and view of the group"
    return [Finding("unowned queues", what, next_step=step)] if unowned else []


def claimed_twice(group: str, queue: Queue, owners: Sequence[str]) -> Finding:
    """Report a queue that several members read."""
    return Finding(
        f"claimed twice: {queue}",
        f"{queue} is read by {' and '.join(owners)} in group {group}: its messages are handled twice",
        next_step="wait for the rebalance to end, then check the members' ids, strategies and subscriptions",
    )


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The progress of a queue at a time: the committed offset, and the end of the queue."""

    at_ms: int
    committed: int
    end: int


@dataclass(frozen=True, slots=True)
class WaitingQueue:
    """A queue with waiting messages, and since when its offset has not moved; all times are of one clock."""

    queue: Queue
    since_ms: int
    offset: int
    lag: int
    oldest_ms: int | None = None
    """When the oldest waiting message was stored, if that is known."""

    @property
    def stuck_since_ms(self) -> int:
        """Since when there was something to do and nothing was done: an idle queue does not progress either."""
        return self.since_ms if self.oldest_ms is None else max(self.since_ms, self.oldest_ms)


def stuck_queues(
    group: str, waiting: Iterable[WaitingQueue], owners: Mapping[Queue, str], now_ms: int
) -> list[Finding]:
    """Find members that make no progress in queues with waiting messages; a slow handler looks the same.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> print(stuck_queues("bills", [WaitingQueue(queue, 0, 10, 45, -60_000)], {queue: "c1"}, 180_000)[0])
    c1 of group bills has made no progress for 3 min in orders@broker-a:0 (offset 10, lag 45), and the oldest waiting \
message is 4 min old; see what its handler waits for: steelyard member show bills c1
    """
    stuck: dict[str, list[WaitingQueue]] = {}
    for each in sorted(waiting, key=lambda each: each.stuck_since_ms):
        if each.queue in owners and now_ms - each.stuck_since_ms >= thresholds.STUCK_MS:
            stuck.setdefault(owners[each.queue], []).append(each)
    found = []
    for owner in sort_names(stuck):
        mine = stuck[owner]
        longest, lag = now_ms - mine[0].stuck_since_ms, sum(each.lag for each in mine)
        where = join_some([each.queue for each in mine])
        at = f"offset {mine[0].offset}, lag {lag}" if len(mine) == 1 else f"{len(mine)} queues, lag {lag}"
        stored = [each.oldest_ms for each in mine if each.oldest_ms is not None]
        age_ms = now_ms - min(stored) if stored else None
        old = f", and the oldest waiting message is {format_duration(age_ms / 1000)} old" if age_ms is not None else ""
        found.append(
            Finding(
                f"stuck: {owner}",
                f"{owner} of group {group} has made no progress for {format_duration(longest / 1000)} in {where} "
                f"({at}){old}",
                Severity.WARNING,
                next_step=f"see what its handler waits for: steelyard member show {group} {owner}",
                evidence=(
                    ("seconds_since_progress", longest / 1000),
                    ("lag", lag),
                    *((("oldest_seconds", age_ms / 1000),) if age_ms is not None else ()),
                ),
            )
        )
    return found


def unreadable_message(group: str, sentence: str) -> Finding:
    """Report a queue that stopped at a message that cannot be read, in its member's words."""
    step = "skip it, or start its consumer with what it needs to read it: docs/how-to/unreadable-messages.md"
    return Finding(f"unreadable: {sentence}", f"group {group}: {sentence}", next_step=step)


def growing_lag(group: str, samples: Sequence[tuple[int, int]]) -> list[Finding]:
    """Find a lag that grew through all samples of time and lag, for twice `thresholds.GROWING_MS` or longer.

    >>> print(growing_lag("bills", [(0, 0), (60_000, 4_000), (120_000, 9_000)])[0])
    the lag of group bills grew from 0 to 9,000 messages in 2 min: it does not keep up; add members or queues, or make \
handlers faster
    """
    lags = [lag for _, lag in samples]
    if len(lags) < 3 or lags != sorted(lags) or lags[-1] - lags[0] < thresholds.GROWING_MESSAGES:
        return []
    span_s = (samples[-1][0] - samples[0][0]) / 1000
    if span_s * 1000 < 2 * thresholds.GROWING_MS:
        return []
    what = f"the lag of group {group} grew from {lags[0]:,} to {lags[-1]:,} messages in {format_duration(span_s)}"
    return [
        Finding(
            "growing lag",
            f"{what}: it does not keep up",
            Severity.WARNING,
            next_step="add members or queues, or make handlers faster",
            evidence=(("lag", lags[-1]), ("before", lags[0]), ("seconds", span_s)),
        )
    ]


def next_lag_samples(before: Sequence[tuple[int, int]], at_ms: int, lag: int) -> tuple[tuple[int, int], ...]:
    """Return the last samples of a lag with one more: all before it are at least `thresholds.GROWING_MS` apart.

    >>> next_lag_samples(((0, 5), (60_000, 6), (70_000, 7)), 80_000, 8)
    ((0, 5), (60000, 6), (80000, 8))
    """
    kept = list(before)
    if len(kept) > 1 and kept[-1][0] - kept[-2][0] < thresholds.GROWING_MS:
        del kept[-1]
    return (*kept[-3:], (at_ms, lag))


def failing_handlers(group: str, failures: Mapping[tuple[str, str], float]) -> list[Finding]:
    """Find members whose handlers fail; ``failures`` are messages a second of each member and topic.

    >>> print(failing_handlers("billing", {("c1", "orders"): 2.5})[0])
    the handler of c1 in group billing fails for 2.5 messages/s of orders, which are redelivered; see its log, and \
then its dead letters: steelyard dead-letters ls billing
    """
    return [
        Finding(
            f"failing handler: {member} {topic}",
            f"the handler of {member} in group {group} fails for {rate:.2g} messages/s of {topic}, which are "
            "redelivered",
            Severity.WARNING,
            next_step=f"see its log, and then its dead letters: steelyard dead-letters ls {group}",
            evidence=(("failed_per_second", rate),),
        )
        for (member, topic), rate in sorted(failures.items())
        if rate > 0
    ]


def no_members(group: str, members: int, lag: int | None) -> list[Finding]:
    """Find a group whose messages wait for a member; one without members and without lag has nothing to do."""
    if members or not lag:
        return []
    return [
        Finding(
            "no members",
            f"group {group} has no member online and a lag of {pluralize(lag, 'message')}",
            Severity.WARNING,
            next_step="start its consumers; if they run, check their group and name servers",
            evidence=(("members", 0), ("lag", lag)),
        )
    ]


def dead_letters(
    group: str, messages: int, last: datetime | None, now: datetime, *, growth: int = 0, span_s: float = 0
) -> list[Finding]:
    """Find dead letters: those that were added within some seconds, or those of the last day."""
    step = f"see why: steelyard dead-letters ls {group}"
    evidence = (("dead_letters", messages), ("new", growth))
    if growth:
        what = f"group {group} gave up {pluralize(growth, 'message')} within the last {format_duration(span_s)}"
        what += f"; it has {pluralize(messages, 'dead letter')}"
        return [Finding("growing dead letters", what, next_step=step, evidence=evidence)]
    if not messages or last is None or now - last >= thresholds.RECENT:
        return []
    ago = format_duration(max(0.0, (now - last).total_seconds()))
    what = f"group {group} has {pluralize(messages, 'dead letter')}, the last {ago} old"
    return [Finding("dead letters", what, Severity.WARNING, next_step=step, evidence=evidence)]


def _outliers(by_member: Mapping[str, T], nothing: T) -> tuple[list[str], T]:
    """Return the members that differ from most, in order, and what most have; of two equally usual, the first."""
    members = sort_names(by_member)
    if not members:
        return [], nothing
    usual = Counter(by_member[member] for member in members).most_common(1)[0][0]
    return [member for member in members if by_member[member] != usual], usual


def join_some(things: Sequence[object]) -> str:
    """Name the first few of some things.

    >>> join_some(range(7))
    '0, 1, 2, 3, 4 and 2 more'
    """
    more = len(things) - _MAX_NAMED
    return ", ".join(map(str, things[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
