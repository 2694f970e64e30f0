"""What looks wrong in a group, in plain words: for members, the command line and the page.

Nothing here refuses or mends anything. A group with one of these works, but not as its owner thinks. ``kind`` stays the
same while the same thing lasts, so that it is told once; ``sentence`` names at most a few of those concerned.

Left out: what only a broker sees, such as one id on two lines (broker/hazards.py); it tells members in its answers.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from steelyard.model import Queue, in_order, names_in_order, plain_tags
from steelyard.model.names import OUR_MARK

__all__ = [
    "Hazard",
    "Progress",
    "duplicate_ids",
    "idle_members",
    "not_progressing",
    "nothing_to_do",
    "unanswering_members",
    "unequal_filters",
    "unequal_strategies",
    "unequal_subscriptions",
    "unmatched_entries",
    "unowned_queues",
]

_NAMED = 5
T = TypeVar("T")


class Hazard(NamedTuple):
    """One thing that looks wrong."""

    kind: str
    sentence: str


def duplicate_ids(group: str, listed: Collection[str]) -> list[Hazard]:
    """Find ids that a broker lists more than once, as Apache's brokers do with two connections of one id.

    Java's members count a share for each entry, and whoever has the id takes the first of them. Ours count an id once.
    A broker of ours lists an id once, and tells by itself that it has several lines (broker/hazards.py).

    >>> print(duplicate_ids("billing", ["c1", "c2", "c1"])[0].sentence)
    group billing lists c1 more than once: whoever has this id reads the first of its shares and nobody the others, so \
queues stay unread, and if several processes have it, each handles the same messages; give each process an id of its own
    """
    twice = [name for name, times in Counter(listed).items() if times > 1]
    if all(name.endswith(OUR_MARK) for name in listed):
        what = (
            "members count it once and no queue stays unread, but if several processes have this id, and it is not one "
            "with an old connection, each handles the same messages"
        )
    else:
        what = (
            "whoever has this id reads the first of its shares and nobody the others, so queues stay unread, and if "
            "several processes have it, each handles the same messages"
        )
    return [
        Hazard(
            f"duplicate {name}",
            f"group {group} lists {name} more than once: {what}; give each process an id of its own",
        )
        for name in names_in_order(twice)
    ]


def unequal_subscriptions(
    group: str, topics: Mapping[str, Collection[str]], *, by_subscribers: bool = False
) -> list[Hazard]:
    """Find members that want other topics than most; ``topics`` are those of each member.

    ``by_subscribers`` says that each topic is shared among those that subscribe to it: by members that are all ours, on
    brokers of ours. Everybody else shares all topics among all members.

    >>> topics = {"c1": ["orders"], "c2": ["orders"], "c3": ["refunds"]}
    >>> print(unequal_subscriptions("billing", topics)[0].sentence)
    members of group billing subscribe to other topics than most (c3, in orders, refunds): all topics are shared among \
all members, so queues of a topic that go to a member without it stay unread; give all members the same topics
    >>> print(unequal_subscriptions("billing", topics, by_subscribers=True)[0].sentence)
    members of group billing subscribe to other topics than most (c3, in orders, refunds): each topic is shared among \
its subscribers and all queues are read, but a failed message may come again to a member without its topic, which \
passes it on; give all members the same topics, or use several groups
    """
    odd, usual = _odd_ones({member: frozenset(wanted) for member, wanted in topics.items()}, frozenset())
    if not odd:
        return []
    unlike = {topic for member in odd for topic in usual.symmetric_difference(topics[member])}
    who = (
        f"members of group {group} subscribe to other topics than most ({_some(odd)}, in "
        f"{_some(names_in_order(unlike))})"
    )
    if by_subscribers:
        return [
            Hazard(
                "different topics",
                f"{who}: each topic is shared among its subscribers and all queues are read, but a failed message may "
                "come again to a member without its topic, which passes it on; give all members the same topics, or "
                "use several groups",
            )
        ]
    return [
        Hazard(
            "unequal subscriptions",
            f"{who}: all topics are shared among all members, so queues of a topic that go to a member without it stay "
            "unread; give all members the same topics",
        )
    ]


def unequal_filters(group: str, filters: Mapping[str, Mapping[str, str]]) -> list[Hazard]:
    """Find topics of which members want different messages; ``filters`` are those of each member, by topic.

    >>> print(unequal_filters("billing", {"c1": {"orders": "*"}, "c2": {"orders": "b||a"}})[0].sentence)
    members of group billing filter orders differently (c2 by a || b, most by *): what the owner of a queue does not \
want of it is passed over and handled by nobody; give all the same filter
    """
    wanted: dict[str, dict[str, str]] = {}
    for member, mine in filters.items():
        for topic, expression in mine.items():
            wanted.setdefault(topic, {})[member] = plain_tags(expression)
    found = []
    for topic in names_in_order(wanted):
        odd, usual = _odd_ones(wanted[topic], "")
        if odd:
            theirs = sorted({wanted[topic][member] for member in odd})
            found.append(
                Hazard(
                    f"unequal filters {topic}",
                    f"members of group {group} filter {topic} differently ({_some(odd)} by {_some(theirs)}, most by "
                    f"{usual}): what the owner of a queue does not want of it is passed over and handled by nobody; "
                    "give all the same filter",
                )
            )
    return found


def unequal_strategies(group: str, strategies: Mapping[str, str]) -> list[Hazard]:
    """Find members that plan by another strategy than most; their plans do not fit together.

    >>> unequal_strategies("billing", {"c1": "AVG", "c2": "AVG", "c3": "CONFIG"})[0].kind
    'unequal strategies'
    """
    odd, usual = _odd_ones(strategies, "")
    if not odd:
        return []
    theirs = names_in_order({strategies[member] for member in odd})
    return [
        Hazard(
            "unequal strategies",
            f"members of group {group} share queues by different strategies: {_some(odd)} by {_some(theirs)}, most by "
            f"{usual}; give all the same one, or queues have two owners or none",
        )
    ]


def unmatched_entries(group: str, setting: str, keys: Sequence[str]) -> list[Hazard]:
    """Say which entries of a strategy's setting are about no member.

    >>> print(unmatched_entries("billing", "weights", ["till-3"])[0].sentence)
    weights has entries for till-3, and group billing has no such member, so they do nothing; an entry is for the name \
of a member, or for a whole client id (that of one of ours is another one after each start)
    """
    if not keys:
        return []
    return [
        Hazard(
            f"unmatched {setting}",
            f"{setting} has entries for {_some(keys)}, and group {group} has no such member, so they do nothing; an "
            "entry is for the name of a member, or for a whole client id (that of one of ours is another one after "
            "each start)",
        )
    ]


def unanswering_members(group: str, members: Sequence[str]) -> list[Hazard]:
    """Say which members do not answer what they hold, where only they can tell.

    >>> [hazard.kind for hazard in unanswering_members("billing", ["c1", "c2"])]
    ['unanswering members']
    """
    if not members:
        return []
    return [
        Hazard(
            "unanswering members",
            f"members of group {group} do not answer: {_some(members)}; they keep the queues that they last reported, "
            "and others keep theirs, until they answer or their broker drops them; see whether they hang",
        )
    ]


def idle_members(group: str, plan: Mapping[str, Collection[Queue]]) -> list[Hazard]:
    """Find members that a plan leaves without a queue: there are more members than queues."""
    idle = names_in_order(member for member, mine in plan.items() if not mine)
    if not idle:
        return []
    queues = len({queue for mine in plan.values() for queue in mine})
    return [nothing_to_do(group, *idle, members=len(plan), queues=queues)]


def nothing_to_do(group: str, *idle: str, members: int, queues: int) -> Hazard:
    """Say that some members, in order, have no queue since there are more members than queues.

    >>> print(nothing_to_do("billing", "c5", members=5, queues=4).sentence)
    group billing has 5 members and 4 queues, so c5 has nothing to do; add queues, or stop some members
    """
    return Hazard(
        "idle members",
        f"group {group} has {members} members and {queues} {'queue' if queues == 1 else 'queues'}, so {_some(idle)} "
        f"{'has' if len(idle) == 1 else 'have'} nothing to do; add queues, or stop some members",
    )


def unowned_queues(group: str, queues: Iterable[Queue], owned: Collection[Queue]) -> list[Hazard]:
    """Find queues that nobody owns; worth telling only once a hand-over has had its time."""
    nobodys = in_order(set(queues).difference(owned))
    if not nobodys:
        return []
    return [
        Hazard(
            "unowned queues",
            f"nobody in group {group} reads {_some(nobodys)}; see whether all members have the same subscriptions, "
            "strategy and view of the group",
        )
    ]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a queue was at a time: what the group committed, and where the queue ended."""

    at_ms: int
    committed: int
    end: int


def not_progressing(
    group: str, samples: Mapping[Queue, Sequence[Progress]], owners: Mapping[Queue, str], *, after_ms: int = 60_000
) -> list[Hazard]:
    """Find queues that have an owner and messages, and whose commits have not moved for a while.

    >>> queue = Queue("orders", "broker-a", 0)
    >>> samples = {queue: [Progress(0, 10, 40), Progress(60_000, 10, 55)]}
    >>> print(not_progressing("billing", samples, {queue: "c1"})[0].sentence)
    c1 owns orders@broker-a:0 in group billing and has been at offset 10 for 60 s, with 45 messages behind it; \
see what its handler waits for
    """
    found = []
    for queue in in_order(samples):
        stuck = _stuck(samples[queue], after_ms)
        if stuck is None or queue not in owners:
            continue
        still_ms, last = stuck
        found.append(
            Hazard(
                f"not progressing {queue}",
                f"{owners[queue]} owns {queue} in group {group} and has been at offset {last.committed} for "
                f"{still_ms // 1000} s, with {last.end - last.committed} messages behind it; "
                "see what its handler waits for",
            )
        )
    return found


def _stuck(samples: Sequence[Progress], after_ms: int) -> tuple[int, Progress] | None:
    """Return for how long the last offset has stood still with something to do, if that is long."""
    if not samples:
        return None
    last = since = samples[-1]
    for sample in reversed(samples):
        if sample.committed != last.committed or sample.end <= sample.committed:
            break
        since = sample
    still_ms = last.at_ms - since.at_ms
    return (still_ms, last) if last.end > last.committed and still_ms >= after_ms else None


def _odd_ones(by_member: Mapping[str, T], nothing: T) -> tuple[list[str], T]:
    """Return who differs from most, in order, and what most have; of two equally usual, the one seen first."""
    members = names_in_order(by_member)
    if not members:
        return [], nothing
    usual = Counter(by_member[member] for member in members).most_common(1)[0][0]
    return [member for member in members if by_member[member] != usual], usual


def _some(things: Sequence[object]) -> str:
    more = len(things) - _NAMED
    return ", ".join(map(str, things[:_NAMED])) + (f" and {more} more" if more > 0 else "")
