"""The data of a balance report as one value: traffic by queue, key, broker and time, the group, its history. Pure.

Traffic is aggregated by Spark (report/traffic_query.py): few values, however many messages there were. A *step* is a
minute, or what divides the period into at most a hundred. Bytes are those of bodies as a consumer gets them.

A finding names its figure and what it is compared with; advice is given only where the figures show the cause. What is
wrong with the group itself is not repeated here: ``steelyard group explain`` shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from steelyard.client.admin.group_description import GroupDescription
from steelyard.diagnostics.topic import measure_skew
from steelyard.model import Queue
from steelyard.model.finding import Finding, Severity, worst_first
from steelyard.model.formatting import (
    format_bytes,
    format_duration,
    format_percent,
    format_ratio,
    pluralize,
    short_names,
    shorten,
)
from steelyard.pipelines.report.ownership import LagSample
from steelyard.pipelines.report.rebalance_history import OwnershipHistory

_STEPS_MS = (
    *(1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000),
    *(86_400_000, 7 * 86_400_000, 28 * 86_400_000),
)
_MAX_STEPS = 100


def format_queue(queue: Queue) -> str:
    """Return a queue's name within its topic.

    >>> format_queue(Queue("orders", "broker-a", 3))
    'broker-a:3'
    """
    return shorten(f"{queue.broker}:{queue.queue_id}")


@dataclass(frozen=True, slots=True)
class KeyInQueue:
    """A key in a queue."""

    key: str
    messages: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The traffic of a queue."""

    queue: Queue
    messages: int = 0
    body_bytes: int = 0
    heaviest: KeyInQueue | None = None  # its key with the most messages

    @property
    def name(self) -> str:
        """Its name within the topic.

        >>> QueueLoad(Queue("orders", "broker-a", 3)).name
        'broker-a:3'
        """
        return f"{self.queue.broker}:{self.queue.queue_id}"


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """The traffic of a key."""

    key: str
    messages: int
    body_bytes: int
    queues: int  # in how many queues it is; one, if the key decides the queue
    mostly_in: Queue


@dataclass(frozen=True, slots=True)
class TimeStepLoad:
    """The traffic of a broker in a step of time."""

    at_ms: int  # the start of the step
    broker: str
    messages: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTraffic:
    """The traffic of a topic."""

    queues: tuple[QueueLoad, ...]  # all queues, in order, also empty ones
    keys: tuple[KeyLoad, ...] = ()  # the heaviest keys, in descending order
    keyed: int = 0  # how many messages have a key
    distinct_keys: int = 0
    step_ms: int = 60_000
    steps: tuple[TimeStepLoad, ...] = ()  # by time, then by broker; empty steps are left out

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(each.messages for each in self.queues)

    @property
    def body_bytes(self) -> int:
        """The total size of bodies."""
        return sum(each.body_bytes for each in self.queues)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers of the topic, in order."""
        return tuple(dict.fromkeys(each.queue.broker for each in self.queues))


def choose_step_ms(start_ms: int, end_ms: int) -> int:
    """Return the length of a step for a period.

    >>> choose_step_ms(0, 20_000), choose_step_ms(0, 3_600_000), choose_step_ms(0, 7 * 86_400_000)
    (1000, 60000, 10800000)
    """
    span_ms = max(0, end_ms - start_ms)
    return next((step for step in _STEPS_MS if span_ms / step <= _MAX_STEPS), span_ms // _MAX_STEPS)


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """The traffic of a member's queues."""

    id: str
    queues: int
    messages: int
    body_bytes: int
    lag: int  # the lag of its queues


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContents:
    """The data of a report."""

    topic: str
    at_ms: int  # when it was made
    traffic: TopicTraffic
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    group_view: GroupDescription | None = None
    history: OwnershipHistory = field(default_factory=OwnershipHistory)
    lag_samples: tuple[LagSample, ...] = ()  # by time
    notes: tuple[str, ...] = ()  # what is unknown, or less exact than it seems

    def lags(self) -> dict[Queue, int]:
        """Return the lag of each queue of the topic, where it is known."""
        rows = () if self.group_view is None else self.group_view.queues
        return {each.queue: each.lag for each in rows if each.queue.topic == self.topic and each.lag is not None}

    def owners(self) -> dict[Queue, tuple[str, ...]]:
        """Return the owners of each queue of the topic."""
        rows = () if self.group_view is None else self.group_view.queues
        return {each.queue: each.owners for each in rows if each.queue.topic == self.topic}

    def member_names(self) -> dict[str, str]:
        """Return short, safe names of members, by id."""
        ids = [member.id for member in self.group_view.members] if self.group_view is not None else []
        ids += self.history.members
        ids += (owner for owners in self.owners().values() for owner in owners)
        return {each: shorten(name) for each, name in short_names(ids).items()}

    def members(self) -> tuple[MemberLoad, ...]:
        """Return the current members of the group with the traffic of their queues."""
        if self.group_view is None:
            return ()
        lags = self.lags()
        loads = {each.queue: each for each in self.traffic.queues}
        mine: dict[str, list[Queue]] = {member.id: [] for member in self.group_view.members}
        for queue, owners in self.owners().items():
            for owner in owners:
                mine.setdefault(owner, []).append(queue)
        return tuple(
            MemberLoad(
                name,
                len(queues),
                sum(loads[queue].messages for queue in queues if queue in loads),
                sum(loads[queue].body_bytes for queue in queues if queue in loads),
                sum(lags.get(queue, 0) for queue in queues),
            )
            for name, queues in mine.items()
        )


_HEAVY_KEY_SHARE = 0.1  # a key with a larger share of all messages is reported
_MOSTLY_ONE_KEY = 0.5  # a queue is busy because of one key if that key is a larger share of its surplus
_LONG_GAP_MS = 5_000
_MIN_LAG = 1_000
_NAMED = 3


def summary_line(contents: ReportContents) -> str:
    """Summarise the traffic in a sentence.

    >>> summary_line(ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=())))
    'topic orders has 0 messages (0 B) in 0 queues on 0 brokers'
    """
    traffic = contents.traffic
    size = f"{pluralize(traffic.messages, 'message')} ({format_bytes(traffic.body_bytes)})"
    line = (
        f"topic {shorten(contents.topic)} has {size} in {pluralize(len(traffic.queues), 'queue')} on "
        f"{pluralize(len(traffic.brokers), 'broker')}"
    )
    if contents.group_view is not None:
        view, lag = contents.group_view, sum(contents.lags().values())
        line += (
            f"; group {shorten(view.group)} has {pluralize(len(view.members), 'member')} "
            f"and a lag of {pluralize(lag, 'message')}"
        )
    return line


def report_findings(contents: ReportContents) -> list[Finding]:
    """Return all findings, the worst first."""
    found = [
        *_queue_findings(contents),
        *_key_findings(contents),
        *_broker_findings(contents),
        *_member_findings(contents),
        *_lag_findings(contents),
        *_move_findings(contents),
    ]
    return worst_first(found)


def _queue_findings(contents: ReportContents) -> Iterator[Finding]:
    traffic = contents.traffic
    if not traffic.messages:
        yield _finding(Severity.WARNING, f"{shorten(contents.topic)} got no messages in this period")
        return
    weighed = measure_skew({each: each.messages for each in traffic.queues})
    busiest = weighed.busiest
    if len(traffic.queues) < 2 or busiest is None:
        return
    if not weighed.is_uneven:
        yield _finding(
            Severity.OK,
            f"queues are even: the busiest, {busiest.name}, has {format_ratio(weighed.ratio)} the mean",
        )
        return
    sentence = f"queue {busiest.name} has {format_ratio(weighed.ratio)} the mean"
    if busiest.heaviest is not None:
        part = format_percent(busiest.heaviest.messages, busiest.messages)
        sentence += f"; key {shorten(busiest.heaviest.key)} alone is {part} of it"
    yield _finding(Severity.WARNING, sentence, _advice_for(busiest, weighed.mean, traffic.keyed / traffic.messages))
    if weighed.empty:
        yield _finding(
            Severity.WARNING,
            f"{weighed.empty} of {pluralize(weighed.parts, 'queue')} are empty",
            f"{pluralize(traffic.distinct_keys, 'key')} cannot fill {pluralize(weighed.parts, 'queue')}"
            if traffic.keyed and traffic.distinct_keys < 3 * weighed.parts
            else "",
        )


def _advice_for(busiest: QueueLoad, mean: float, keyed: float) -> str:
    """Advise on a queue with too much load: it depends on whether one key causes it, or several."""
    if keyed < _MOSTLY_ONE_KEY:
        return "most messages have no key: check how their producer selects queues"
    if busiest.heaviest is not None and busiest.heaviest.messages > _MOSTLY_ONE_KEY * (busiest.messages - mean):
        return "more queues do not help: use a finer key, such as customer and order instead of customer"
    return "several heavy keys share it: use more queues, or a key with more values"


def _key_findings(contents: ReportContents) -> Iterator[Finding]:
    traffic = contents.traffic
    heavy = [each for each in traffic.keys if each.messages > _HEAVY_KEY_SHARE * traffic.messages]
    parts = len(traffic.queues)
    for each in heavy[:_NAMED]:
        # A key that fits into an even queue is no problem.
        if parts > 1 and each.messages * parts > traffic.messages:
            yield _finding(
                Severity.WARNING,
                f"key {shorten(each.key)} is {format_percent(each.messages, traffic.messages)} of all messages: "
                f"while it is in one queue, more than {ceil(traffic.messages / each.messages)} queues do not help",
            )
    spread = [each for each in traffic.keys if each.queues > 1]
    if traffic.keys and len(spread) < len(traffic.keys) / 2:
        for each in spread[:_NAMED]:
            yield _finding(
                Severity.WARNING,
                f"key {shorten(each.key)} is in {each.queues} queues, while most keys are in one: its messages are "
                "not consumed in order",
                "that happens once when queues are added, and always if producers select queues differently",
            )


def _broker_findings(contents: ReportContents) -> Iterator[Finding]:
    loads = dict.fromkeys(contents.traffic.brokers, 0)
    for each in contents.traffic.queues:
        loads[each.queue.broker] += each.messages
    weighed = measure_skew(loads)
    if weighed.parts > 1 and weighed.is_uneven and weighed.busiest is not None:
        queues = sum(each.queue.broker == weighed.busiest for each in contents.traffic.queues)
        yield _finding(
            Severity.WARNING,
            f"broker {shorten(weighed.busiest)} got {format_percent(weighed.max_load, weighed.total)} of all "
            f"messages with {format_percent(queues, len(contents.traffic.queues))} of the queues",
        )


def _member_findings(contents: ReportContents) -> Iterator[Finding]:
    members, names = contents.members(), contents.member_names()
    weighed = measure_skew({each.id: each.messages for each in members if each.queues})
    if weighed.parts < 2 or weighed.busiest is None:
        return
    who = names.get(weighed.busiest, weighed.busiest)
    if not weighed.is_uneven:
        yield _finding(
            Severity.OK,
            f"members are even: the queues of the busiest, {who}, got {format_ratio(weighed.ratio)} the mean",
        )
        return
    queues = {each.id: each.queues for each in members}
    is_share = queues[weighed.busiest] > 1 + min(many for many in queues.values() if many)
    yield _finding(
        Severity.WARNING,
        f"the queues of {who} got {format_ratio(weighed.ratio)} the mean of members",
        f"it has {queues[weighed.busiest]} of them, more than its share: check that all members use the same strategy"
        if is_share
        else "it has no more queues than others, but busier ones: balance the queues first",
    )


def _lag_findings(contents: ReportContents) -> Iterator[Finding]:
    samples = contents.lag_samples
    if samples and samples[-1].messages > max(samples[0].messages, _MIN_LAG):
        grown = pluralize(samples[-1].messages - samples[0].messages, "message")
        took = format_duration((samples[-1].at_ms - samples[0].at_ms) / 1_000)
        yield _finding(Severity.WARNING, f"the lag grew by {grown} in {took}: the group does not keep up")


def _move_findings(contents: ReportContents) -> Iterator[Finding]:
    history, names = contents.history, contents.member_names()
    for both in history.overlaps[:1]:
        more = f" (and {len(history.overlaps) - 1} more)" if len(history.overlaps) > 1 else ""
        yield _finding(
            Severity.ERROR,
            f"{format_queue(both.after.queue)} had two owners, {names[both.before.member]} and "
            f"{names[both.after.member]}, for {format_duration(both.span_ms / 1_000)}{more}: messages of that time may "
            "be handled twice",
            "if they ran on two machines, first check that their clocks agree",
        )
    if history.changes:
        moved, minimum = sum(len(change.moves) for change in history.changes), history.necessary_moves
        changes = pluralize(len(history.changes), "rebalance")
        yield _finding(
            Severity.OK if moved <= minimum else Severity.WARNING,
            f"{pluralize(moved, 'queue')} moved in {changes}, and the minimum is {minimum}",
            "" if moved <= minimum else "strategy='sticky' moves only the minimum",
        )
    if gaps := history.gaps_ms:
        longest = next(over for over in history.handovers if over.gap_ms == gaps[-1])
        yield _finding(
            Severity.WARNING if gaps[-1] > _LONG_GAP_MS else Severity.OK,
            f"the median hand-over took {format_duration(median(gaps) / 1_000)}; the longest left "
            f"{format_queue(longest.after.queue)} without an owner for {format_duration(gaps[-1] / 1_000)}, between "
            f"{names[longest.before.member]} and {names[longest.after.member]}",
        )


def _finding(severity: Severity, message: str, next_step: str = "") -> Finding:
    return Finding("", message, severity, next_step=next_step)
