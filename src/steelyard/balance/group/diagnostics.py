"""Diagnostics: rules for what looks wrong in a group, for members, the command line and the dashboard.

A rule changes nothing: a group with a finding works, but not as intended. The ``kind`` of a finding stays the same
while it lasts, so that it is reported once; its ``message`` names at most a few members or queues.

Left out: what only a broker sees, such as one id on two connections (broker/group_warnings.py).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from steelyard.model import Queue, normalize_tags, sort_names, sort_queues
from steelyard.model.finding import Finding, Severity
from steelyard.model.reserved_names import CLIENT_ID_SUFFIX

_MAX_NAMED = 5
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


def duplicate_ids(group: str, listed: Collection[str]) -> list[Finding]:
    """Find ids that a broker lists more than once, as Apache brokers do with two connections of one id.

    Java members count a share for each entry, and the owner of the id takes the first of them. Ours count an id once.

    >>> print(duplicate_ids("billing", ["c1", "c2", "c1"])[0].message)
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
            f"duplicate {name}",
            f"group {group} lists {name} more than once: {what} handles the same messages; give each process an id of "
            "its own",
        )
        for name in sort_names(twice)
    ]


def unequal_subscriptions(
    group: str, topics: Mapping[str, Collection[str]], *, by_subscribers: bool = False
) -> list[Finding]:
    """Find members with other topics than most; ``topics`` are those of each member.

    ``by_subscribers`` says that each topic is shared among its subscribers, as Steelyard members do on Steelyard
    brokers. All others share all topics among all members.

    >>> topics = {"c1": ["orders"], "c2": ["orders"], "c3": ["refunds"]}
    >>> print(unequal_subscriptions("billing", topics)[0].message)
    members of group billing subscribe to other topics than most (c3, in orders, refunds): all topics are shared among \
all members, so queues of a topic that go to a member without it stay unread; give all members the same topics
    >>> print(unequal_subscriptions("billing", topics, by_subscribers=True)[0].message)
    members of group billing subscribe to other topics than most (c3, in orders, refunds): each topic is shared among \
its subscribers and all queues are read, but a failed message may be redelivered to a member without its topic, \
which passes it on; give all members the same topics, or use several groups
    """
    odd, usual = _outliers({member: frozenset(wanted) for member, wanted in topics.items()}, frozenset())
    if not odd:
        return []
    unlike = {topic for member in odd for topic in usual.symmetric_difference(topics[member])}
    who = (
        f"members of group {group} subscribe to other topics than most ({join_some(odd)}, in "
        f"{join_some(sort_names(unlike))})"
    )
    if by_subscribers:
        what = (
            "each topic is shared among its subscribers and all queues are read, but a failed message may be "
            "redelivered to a member without its topic, which passes it on; give all members the same topics, or use "
            "several groups"
        )
        return [Finding("different topics", f"{who}: {what}", Severity.WARNING)]
    what = (
        "all topics are shared among all members, so queues of a topic that go to a member without it stay unread; "
        "give all members the same topics"
    )
    return [Finding("unequal subscriptions", f"{who}: {what}")]


def unequal_filters(group: str, filters: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    """Find topics for which members have different filters; ``filters`` are those of each member, by topic.

    >>> print(unequal_filters("billing", {"c1": {"orders": "*"}, "c2": {"orders": "b||a"}})[0].message)
    members of group billing filter orders differently (c2 by a || b, most by *): messages that the owner of a queue \
does not match are skipped; give all the same filter
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
            what = (
                f"members of group {group} filter {topic} differently ({join_some(odd)} by {join_some(theirs)}, most "
                f"by {usual}): messages that the owner of a queue does not match are skipped; give all the same filter"
            )
            found.append(Finding(f"unequal filters {topic}", what))
    return found


def unequal_strategies(group: str, strategies: Mapping[str, str]) -> list[Finding]:
    """Find members with another strategy than most; their plans do not fit together.

    >>> unequal_strategies("billing", {"c1": "AVG", "c2": "AVG", "c3": "CONFIG"})[0].kind
    'unequal strategies'
    """
    odd, usual = _outliers(strategies, "")
    theirs = sort_names({strategies[member] for member in odd})
    what = (
        f"members of group {group} have different strategies: {join_some(odd)} {join_some(theirs)}, most {usual}; "
        "give all the same one, or queues have two owners or none"
    )
    return [Finding("unequal strategies", what)] if odd else []


def unmatched_entries(group: str, setting: str, keys: Sequence[str]) -> list[Finding]:
    """Find entries of a strategy's setting that match no member.

    >>> print(unmatched_entries("billing", "weights", ["till-3"])[0].message)
    weights has entries for till-3, and group billing has no such member, so they have no effect; an entry is for the \
name of a member, or for a whole client id (which Steelyard members change with each start)
    """
    what = (
        f"{setting} has entries for {join_some(keys)}, and group {group} has no such member, so they have no effect; "
        "an entry is for the name of a member, or for a whole client id (which Steelyard members change with each "
        "start)"
    )
    return [Finding(f"unmatched {setting}", what)] if keys else []


def unresponsive_members(group: str, members: Sequence[str]) -> list[Finding]:
    """Report members that do not answer ownership probes.

    >>> [finding.kind for finding in unresponsive_members("billing", ["c1", "c2"])]
    ['unanswering members']
    """
    what = (
        f"members of group {group} do not answer: {join_some(members)}; they keep the queues that they last reported, "
        "and others keep theirs, until they answer or their broker drops them; see whether they hang"
    )
    return [Finding("unanswering members", what)] if members else []


def idle_members(group: str, plan: Mapping[str, Collection[Queue]]) -> list[Finding]:
    """Find members that a plan leaves without a queue: there are more members than queues."""
    idle = sort_names(member for member, mine in plan.items() if not mine)
    if not idle:
        return []
    queues = len({queue for mine in plan.values() for queue in mine})
    return [idle_members_finding(group, *idle, members=len(plan), queues=queues)]


def idle_members_finding(group: str, *idle: str, members: int, queues: int) -> Finding:
    """Report members without a queue, in order, because there are more members than queues.

    >>> print(idle_members_finding("billing", "c5", members=5, queues=4).message)
    group billing has 5 members and 4 queues, so c5 has nothing to do; add queues, or stop some members
    """
    return Finding(
        "idle members",
        f"group {group} has {members} members and {queues} {'queue' if queues == 1 else 'queues'}, "
        f"so {join_some(idle)} {'has' if len(idle) == 1 else 'have'} nothing to do; add queues, or stop some members",
        Severity.WARNING,
    )


def unowned_queues(group: str, queues: Iterable[Queue], owned: Collection[Queue]) -> list[Finding]:
    """Find queues that no member owns; worth reporting only once a handover has had its time."""
    unowned = sort_queues(set(queues).difference(owned))
    what = (
        f"no member of group {group} reads {join_some(unowned)}; see whether all members have the same subscriptions, "
        "strategy and view of the group"
    )
    return [Finding("unowned queues", what)] if unowned else []


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The progress of a queue at a time: the committed offset, and the end of the queue."""

    at_ms: int
    committed: int
    end: int


def stalled_queues(
    group: str,
    samples: Mapping[Queue, Sequence[ProgressSample]],
    owners: Mapping[Queue, str],
    *,
    after_ms: int = 60_000,
) -> list[Finding]:
    """Find queues that have an owner and messages, and whose commits have not moved for a while.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> samples = {queue: [ProgressSample(0, 10, 40), ProgressSample(60_000, 10, 55)]}
    >>> print(stalled_queues("billing", samples, {queue: "c1"})[0].message)
    c1 owns orders@broker-a:0 in group billing and has been at offset 10 for 60 s, with 45 messages behind it; \
see what its handler waits for
    """
    found = []
    for queue in sort_queues(samples):
        stuck = _stalled(samples[queue], after_ms)
        if stuck is not None and queue in owners:
            still_ms, last = stuck
            what = (
                f"{owners[queue]} owns {queue} in group {group} and has been at offset {last.committed} for "
                f"{still_ms // 1000} s, with {last.end - last.committed} messages behind it; "
                "see what its handler waits for"
            )
            found.append(Finding(f"not progressing {queue}", what))
    return found


def _stalled(samples: Sequence[ProgressSample], after_ms: int) -> tuple[int, ProgressSample] | None:
    """Return for how long the last offset has stalled with messages behind it, if that is long."""
    if not samples:
        return None
    last = since = samples[-1]
    for sample in reversed(samples):
        if sample.committed != last.committed or sample.end <= sample.committed:
            break
        since = sample
    still_ms = last.at_ms - since.at_ms
    return (still_ms, last) if last.end > last.committed and still_ms >= after_ms else None


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
