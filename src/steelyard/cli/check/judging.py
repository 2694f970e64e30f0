"""How bad is it: what was found of a cluster, a group, a topic or a message becomes a verdict. Pure.

Limits are the caller's. What has none is judged by what cannot be right: a broker that does not answer, a group that
nobody is in, a topic that cannot be written to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from steelyard.cli.check.verdict import NO_LIMITS, Figure, Level, Limits, Reason, Verdict
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.moments import in_short
from steelyard.cli.frame.short_names import short_names, shortened
from steelyard.client.admin.cluster import Broker
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.topics import TopicView
from steelyard.client.checkup.facts import NameServerSeen, ServerKind
from steelyard.model import Permission, QueueCounts

__all__ = ["RoundTrip", "judge_cluster", "judge_group", "judge_send", "judge_topic", "with_dead_letters"]


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One message there and back; ``problem`` says why it did not come back."""

    broker: str
    send_ms: float = 0.0
    back_ms: float = 0.0
    """Until it was read again, the sending included."""
    problem: str | None = None


def judge_cluster(
    brokers: Sequence[Broker], name_servers: Sequence[NameServerSeen], *, disk: Limits, least: int = 0
) -> Verdict:
    """Judge a cluster: everybody answers, so many are there, name servers agree, disks have room, releases are one.

    A broker that is gone for long is forgotten by name servers: only who says how many there are to be hears of it.
    """
    up = [each for each in brokers if each.problem is None]
    reasons = list(_name_servers(name_servers))
    if any(each.works for each in name_servers):
        reasons += _brokers(brokers, disk)
        if len(up) < least:
            reasons.append(Reason(Level.CRITICAL, f"only {_count(len(up), 'broker')} of {least} {_is(len(up))} up"))
    versions = sorted({each.version.removeprefix("V").replace("_", ".") for each in up if each.version})
    if len(versions) > 1:
        reasons.append(Reason(Level.WARNING, f"brokers are of different releases: {', '.join(versions)}"))
    fullest = max((each.disk_used for each in up if each.disk_used is not None), default=None)
    figures = [
        Figure("brokers", len(brokers)),
        Figure("brokers_up", len(up)),
        Figure("name_servers_up", sum(each.works for each in name_servers)),
    ]
    if fullest is not None:
        figures.append(Figure("disk", round(fullest * 100, 2), "%", disk))
    figures.append(Figure("in_tps", round(sum(each.put_tps or 0.0 for each in up), 2)))
    figures.append(Figure("out_tps", round(sum(each.get_tps or 0.0 for each in up), 2)))
    names = f"{_count(len(name_servers), 'name server')}{' that agree' if len(name_servers) > 1 else ''}"
    release = f", release {versions[0]}" if versions else ""
    well = f"{_count(len(up), 'broker')} of {len(brokers)} answer{'s' if len(up) == 1 else ''}, {names}{release}"
    return Verdict("cluster", well, tuple(reasons), tuple(figures))


def _name_servers(seen: Sequence[NameServerSeen]) -> Iterator[Reason]:
    working = [each for each in seen if each.works]
    for each in seen:
        if not each.works:
            # With another one at hand clients go on.
            level = Level.WARNING if working else Level.CRITICAL
            yield Reason(level, _no_name_server(each))
    everybody = {name for each in working for name in each.brokers or ()}
    for each in working:
        missing = sorted(everybody.difference(each.brokers or ()))
        if missing:
            yield Reason(Level.WARNING, f"name server {each.address} does not know {', '.join(missing)}, others do")
    for name in sorted(everybody):
        told = [each.brokers[name].addresses for each in working if each.brokers is not None and name in each.brokers]
        if any(each != told[0] for each in told):
            yield Reason(Level.WARNING, f"name servers tell different addresses of {name}")


_OTHERS = (ServerKind.BROKER, ServerKind.STRANGER, ServerKind.HTTP, ServerKind.HTTP2, ServerKind.UNKNOWN)
"""Who is not a name server that is in trouble, but no name server at all."""


def _no_name_server(seen: NameServerSeen) -> str:
    if seen.kind in _OTHERS:
        return f"at {seen.address} there is {seen.kind.value} instead of a name server"
    why = seen.no_ip or (seen.dialled.why if seen.dialled is not None else "nobody looked")
    return f"name server {seen.address} does not answer ({f'there is {seen.kind.value}' if seen.kind else why})"


def _brokers(brokers: Sequence[Broker], disk: Limits) -> Iterator[Reason]:
    if not brokers:
        yield Reason(Level.CRITICAL, "no broker is registered")
    for each in brokers:
        if each.problem is not None:
            yield Reason(Level.CRITICAL, f"broker {each.name} does not answer ({each.problem})")
        if 0 not in each.addresses:
            yield Reason(Level.WARNING, f"broker {each.name} has no master, only replicas: it takes no messages")
        used = None if each.disk_used is None else each.disk_used * 100
        if used is not None and (limit := disk.passed(used)) is not None:
            yield Reason(disk.level(used), f"the disk of {each.name} is {used:.0f} % full, more than {limit:g} %")


def judge_group(
    view: GroupView, oldest: timedelta | None, *, lag: Limits, age: Limits, members: int, hazards: bool = True
) -> Verdict:
    """Judge a group: what waits and for how long, who is there, and what looks wrong."""
    there = sum(not member.leaving for member in view.members)
    age_s = 0.0 if oldest is None else round(oldest.total_seconds(), 3)
    reasons = []
    if there < members:
        who = "nobody is" if not there else f"only {_count(there, 'member')} of {members} {_is(there)}"
        reasons.append(Reason(Level.CRITICAL, f"{who} online"))
    if (limit := lag.passed(view.lag)) is not None:
        reasons.append(Reason(lag.level(view.lag), f"{_waiting(view.lag)}, more than {limit:,.0f}"))
    if (limit := age.passed(age_s)) is not None:
        oldest_for = f"the oldest message has waited for {in_short(age_s)}, longer than {in_short(limit)}"
        reasons.append(Reason(age.level(age_s), oldest_for))
    names = short_names(view.owned())
    if hazards:
        reasons += [Reason(Level.WARNING, shortened(each.sentence, names)) for each in view.hazards]
    figures = (
        Figure("lag", view.lag, limits=lag),
        Figure("age", age_s, "s", age),
        Figure("members", there),
        Figure("queues", len(view.queues)),
        Figure("hazards", len(view.hazards)),
    )
    for_long = f", the oldest for {in_short(age_s)}" if view.lag else ""
    well = f"{_count(there, 'member') if there else 'nobody'} online, {_waiting(view.lag)}{for_long}"
    return Verdict(f"group {view.group}", well, tuple(reasons), figures)


def with_dead_letters(verdict: Verdict, dead: int, limits: Limits) -> Verdict:
    """Add what a group gave up to the verdict on it, if there are limits to that.

    >>> well = Verdict("group billing", "nothing waits")
    >>> with_dead_letters(well, 3, Limits(0)).line()
    'WARNING group billing: it gave up 3 messages, more than 0 | dead_letters=3;0;'
    >>> with_dead_letters(well, 3, Limits()) == well
    True
    """
    if limits == NO_LIMITS:
        return verdict
    reasons = verdict.reasons
    if (limit := limits.passed(dead)) is not None:
        reasons += (Reason(limits.level(dead), f"it gave up {_count(dead, 'message')}, more than {limit:,.0f}"),)
    return replace(verdict, reasons=reasons, figures=(*verdict.figures, Figure("dead_letters", dead, limits=limits)))


def judge_topic(view: TopicView, *, skew: Limits, brokers: int = 0) -> Verdict:
    """Judge a topic: it can be written to and read, on so many brokers, and its queues hold about the same."""
    writable = _queues(view.counts, Permission.WRITE)
    readable = _queues(view.counts, Permission.READ)
    reasons = []
    if not writable:
        reasons.append(Reason(Level.CRITICAL, "no queue can be written to"))
    if not readable:
        reasons.append(Reason(Level.CRITICAL, "no queue can be read"))
    closed = [each.broker for each in view.counts if not (each.write and each.permission & Permission.WRITE)]
    if writable and closed:
        reasons.append(Reason(Level.WARNING, f"it cannot be written to on {', '.join(closed)}"))
    if len(view.counts) < brokers:
        reasons.append(Reason(Level.CRITICAL, f"only {_count(len(view.counts), 'broker')} of {brokers} have it"))
    times = _skew(view)
    if (limit := skew.passed(times)) is not None:
        fullest = max(view.queues, key=lambda each: each.messages)
        reasons.append(
            Reason(
                skew.level(times),
                f"{fullest.queue} holds {times:.1f} times what queues hold on average, more than {limit:g}",
            )
        )
    figures = (
        Figure("writable", writable),
        Figure("readable", readable),
        Figure("brokers", len(view.counts)),
        Figure("messages", view.messages),
        Figure("skew", times, limits=skew),
    )
    well = f"{_count(writable, 'queue')} to write and {readable} to read on {_count(len(view.counts), 'broker')}"
    return Verdict(f"topic {view.name}", f"{well}, {_count(view.messages, 'message')}", tuple(reasons), figures)


def _queues(counts: Sequence[QueueCounts], wanted: Permission) -> int:
    return sum(each.write if wanted is Permission.WRITE else each.read for each in counts if each.permission & wanted)


def _skew(view: TopicView) -> float:
    """Return how many times the average the fullest queue holds; few messages say nothing and are 1."""
    counts = [each.messages for each in view.queues]
    total = sum(counts)
    if total < 10 * len(counts) or not total:
        return 1.0
    return round(max(counts) * len(counts) / total, 2)


def judge_send(topic: str | None, trips: Sequence[RoundTrip], *, took: Limits) -> Verdict:
    """Judge messages that were sent and read again; limits are of seconds, there and back."""
    reasons = []
    for each in trips:
        if each.problem is not None:
            reasons.append(Reason(Level.CRITICAL, f"{each.broker}: {each.problem}"))
        elif (limit := took.passed(each.back_ms / 1000)) is not None:
            level = took.level(each.back_ms / 1000)
            sentence = f"{each.broker} took {each.back_ms:.0f} ms there and back, more than {limit * 1000:.0f} ms"
            reasons.append(Reason(level, sentence))
    back = [each for each in trips if each.problem is None]
    figures = tuple(_trip_figures(back, took))
    slowest = max((each.back_ms for each in back), default=0.0)
    well = f"{_count(len(back), 'message')} there and back, the slowest in {slowest:.0f} ms"
    return Verdict(f"send {topic}" if topic else "send", well, tuple(reasons), figures)


def _trip_figures(back: Sequence[RoundTrip], took: Limits) -> Iterator[Figure]:
    several = len(back) > 1
    for each in back:
        ending = f"_{each.broker}" if several else ""
        yield Figure(f"send{ending}", round(each.send_ms / 1000, 6), "s")
        yield Figure(f"there_and_back{ending}", round(each.back_ms / 1000, 6), "s", took)


def _waiting(lag: int) -> str:
    return "nothing waits" if not lag else f"{lag:,} message{'s wait' if lag != 1 else ' waits'}"


def _count(number: int, noun: str) -> str:
    return counted(number, noun, by_thousands=True)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
