"""Rules of `steelyard check`: facts in, a `CheckResult` out, printed as Nagios plug-ins print it. Pure.

    WARNING group billing: a lag of 1,204 messages, more than 1,000 | lag=1204;1000;10000 age=12s;300; members=3

One line: the status, the subject, the reasons with the worst first, and after the bar each metric with its thresholds.
Thresholds are the caller's. Without any, only what `steelyard.diagnostics` finds is bad: an error is critical. So a
group without members is ok without lag and a warning with it, unless ``--members`` says how many there must be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum

from steelyard.cli.shared.output import finding_values
from steelyard.client.admin.brokers import BrokerStatus
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topics import TopicDescription
from steelyard.client.cluster_facts import broker_facts
from steelyard.diagnostics.servers import (
    DiskLimits,
    NameServerFacts,
    diagnose_brokers,
    diagnose_name_servers,
)
from steelyard.diagnostics.topic import measure_skew
from steelyard.model import Permission, QueueCounts
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_duration, format_release, pluralize, short_names, shorten_ids


class CheckStatus(IntEnum):
    """How bad it is. The number is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3
    """A server answered and does not report what is needed."""


_WORST_FIRST = (CheckStatus.CRITICAL, CheckStatus.UNKNOWN, CheckStatus.WARNING, CheckStatus.OK)


def worst_status(statuses: Iterable[CheckStatus]) -> CheckStatus:
    """Return the worst status: a known problem is worse than an unknown state.

    >>> worst_status([CheckStatus.UNKNOWN, CheckStatus.CRITICAL]).name
    'CRITICAL'
    >>> worst_status([CheckStatus.UNKNOWN, CheckStatus.WARNING]).name, worst_status([]).name
    ('UNKNOWN', 'OK')
    """
    return min(statuses, key=_WORST_FIRST.index, default=CheckStatus.OK)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of a metric. None is no limit."""

    warn: float | None = None
    crit: float | None = None

    def status_of(self, value: float) -> CheckStatus:
        """Return the status of a value; a value equal to a limit is within it.

        >>> limits = Thresholds(1_000, 10_000)
        >>> [limits.status_of(each).name for each in (1_000, 1_001, 10_001)]
        ['OK', 'WARNING', 'CRITICAL']
        """
        if self.crit is not None and value > self.crit:
            return CheckStatus.CRITICAL
        return CheckStatus.WARNING if self.warn is not None and value > self.warn else CheckStatus.OK

    def exceeded(self, value: float) -> float | None:
        """Return the highest limit that a value exceeds."""
        return {CheckStatus.CRITICAL: self.crit, CheckStatus.WARNING: self.warn}.get(self.status_of(value))


NO_THRESHOLDS = Thresholds()
_MIN_PER_QUEUE = 10
"""Messages: the skew of fewer says nothing."""


@dataclass(frozen=True, slots=True)
class CheckMetric:
    """A number with its unit and its thresholds.

    >>> str(CheckMetric("disk of broker-a", 0.5, thresholds=Thresholds(0.75))), str(CheckMetric("lag", 12))
    ("'disk of broker-a'=0.5;0.75;", 'lag=12')
    """

    name: str
    value: float
    unit: str = ""
    """``s``, ``ms``, ``B``, or nothing for a count."""
    thresholds: Thresholds = NO_THRESHOLDS

    def __str__(self) -> str:
        """Write it as Nagios performance data."""
        name = f"'{self.name}'" if set(self.name) & {" ", "=", "'"} else self.name
        text = (
            f"{name}={self.value:g}{self.unit}" if isinstance(self.value, float) else f"{name}={self.value}{self.unit}"
        )
        if self.thresholds == NO_THRESHOLDS:
            return text
        low, high = ("" if each is None else f"{each:g}" for each in (self.thresholds.warn, self.thresholds.crit))
        return f"{text};{low};{high}"


@dataclass(frozen=True, slots=True)
class CheckReason:
    """Why a status is not OK: a sentence."""

    status: CheckStatus
    sentence: str
    finding: Finding | None = None
    """What was found, if it is no threshold of the caller's."""


def _critical(sentence: str) -> CheckReason:
    return CheckReason(CheckStatus.CRITICAL, sentence)


def _warning(sentence: str) -> CheckReason:
    return CheckReason(CheckStatus.WARNING, sentence)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; ``parts`` are the checks that it consists of."""

    subject: str
    """Such as ``group billing``."""
    ok_text: str
    """A short description for when there are no reasons."""
    reasons: tuple[CheckReason, ...] = ()
    metrics: tuple[CheckMetric, ...] = ()
    parts: tuple["CheckResult", ...] = ()

    @property
    def status(self) -> CheckStatus:
        """The status of the worst reason or part."""
        return worst_status([*(each.status for each in self.reasons), *(part.status for part in self.parts)])

    @property
    def sentences(self) -> list[str]:
        """The reasons, the worst first."""
        reasons = sorted(self.reasons, key=lambda each: _WORST_FIRST.index(each.status))
        return [each.sentence for each in reasons] or [self.ok_text]

    def status_line(self) -> str:
        """Return it as one line."""
        metrics = " ".join(map(str, self.metrics))
        # A bar in a sentence would be read as the start of the metrics.
        reasons = "; ".join(self.sentences).replace("|", "/")
        return f"{self.status.name} {self.subject}: {reasons}{f' | {metrics}' if metrics else ''}"

    def status_lines(self) -> Iterator[str]:
        """Return it as one line, and one for each part."""
        yield self.status_line()
        for part in self.parts:
            yield from part.status_lines()

    def as_json(self) -> Mapping[str, object]:
        """Return it for programs."""
        return {
            "check": self.subject,
            "status": self.status.name.lower(),
            "exit": int(self.status),
            "sentences": self.sentences,
            "findings": [finding_values(each.finding) for each in self.reasons if each.finding is not None],
            "figures": {
                each.name: {
                    "value": each.value,
                    "unit": each.unit,
                    "warn": each.thresholds.warn,
                    "crit": each.thresholds.crit,
                }
                for each in self.metrics
            },
            **({"parts": [part.as_json() for part in self.parts]} if self.parts else {}),
        }


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A message that was sent and read back; ``problem`` says why it was not."""

    broker: str
    send_ms: float = 0.0
    round_trip_ms: float = 0.0
    """From sending until it was read back."""
    problem: str | None = None


_STATUS_OF = {
    Severity.OK: CheckStatus.OK,
    Severity.WARNING: CheckStatus.WARNING,
    Severity.ERROR: CheckStatus.CRITICAL,
}


def _reasons_of(findings: Iterable[Finding], names: Mapping[str, str] = {}) -> Iterator[CheckReason]:
    """Return what was found as reasons; ``names`` are short names of members."""
    for each in findings:
        if each.severity is not Severity.OK:
            sentence = f"{each.subject}: {each.message}" if each.subject else shorten_ids(each.message, names)
            yield CheckReason(_STATUS_OF[each.severity], sentence, each)


def evaluate_cluster(
    brokers: Sequence[BrokerStatus], name_servers: Sequence[NameServerFacts], *, disk: Thresholds, min_brokers: int = 0
) -> CheckResult:
    """Check that servers answer, enough brokers are up, name servers agree, disks have room and releases are equal.

    Name servers forget a broker that is gone for long: only ``min_brokers`` detects it.
    """
    up = [each for each in brokers if each.problem is None]
    limits = DiskLimits(*(None if each is None else each / 100 for each in (disk.warn, disk.crit)))
    reasons = list(_reasons_of(diagnose_name_servers(name_servers)))
    if any(each.works for each in name_servers):
        reasons += _reasons_of(diagnose_brokers(list(map(broker_facts, brokers)), disk=limits))
        if len(up) < min_brokers:
            reasons.append(_critical(f"only {pluralize(len(up), 'broker')} of {min_brokers} {_is_or_are(len(up))} up"))
    versions = sorted({format_release(each.version) for each in up if each.version})
    fullest = max((each.disk_used for each in up if each.disk_used is not None), default=None)
    metrics = [
        CheckMetric("brokers", len(brokers)),
        CheckMetric("brokers_up", len(up)),
        CheckMetric("name_servers_up", sum(each.works for each in name_servers)),
    ]
    if fullest is not None:
        metrics.append(CheckMetric("disk", round(fullest * 100, 2), "%", disk))
    metrics.append(CheckMetric("in_tps", round(sum(each.put_tps or 0.0 for each in up), 2)))
    metrics.append(CheckMetric("out_tps", round(sum(each.get_tps or 0.0 for each in up), 2)))
    names = f"{pluralize(len(name_servers), 'name server')}{' that agree' if len(name_servers) > 1 else ''}"
    release = f", release {versions[0]}" if versions else ""
    ok_text = f"{pluralize(len(up), 'broker')} of {len(brokers)} answer{'s' if len(up) == 1 else ''}, {names}{release}"
    return CheckResult("cluster", ok_text, tuple(reasons), tuple(metrics))


def evaluate_group(
    view: GroupDescription, oldest: timedelta | None, *, lag: Thresholds, age: Thresholds, members: int | None = None
) -> CheckResult:
    """Check the lag, its age, the members, and what looks wrong in a group."""
    there = sum(not member.leaving for member in view.members)
    age_s = 0.0 if oldest is None else round(oldest.total_seconds(), 3)
    reasons = []
    if members is not None and there < members:
        who = "no member is" if not there else f"only {pluralize(there, 'member')} of {members} {_is_or_are(there)}"
        reasons.append(_critical(f"{who} online"))
    if (limit := lag.exceeded(view.lag)) is not None:
        reasons.append(CheckReason(lag.status_of(view.lag), f"{_lag_text(view.lag)}, more than {limit:,.0f}"))
    if (limit := age.exceeded(age_s)) is not None:
        oldest_for = f"the oldest message has waited for {format_duration(age_s)}, longer than {format_duration(limit)}"
        reasons.append(CheckReason(age.status_of(age_s), oldest_for))
    names = short_names(view.owned())
    # The caller's own limit replaces the rule.
    found = (each for each in view.findings if members is None or each.rule != "no members")
    reasons += _reasons_of(found, names)
    metrics = (
        CheckMetric("lag", view.lag, thresholds=lag),
        CheckMetric("age", age_s, "s", age),
        CheckMetric("members", there),
        CheckMetric("queues", len(view.queues)),
        CheckMetric("findings", len(view.findings)),
    )
    age_text = f", the oldest waiting for {format_duration(age_s)}" if view.lag else ""
    ok_text = f"{pluralize(there, 'member') if there else 'no member'} online, {_lag_text(view.lag)}{age_text}"
    return CheckResult(f"group {view.group}", ok_text, tuple(reasons), metrics)


def add_dead_letters(result: CheckResult, dead: int, limits: Thresholds) -> CheckResult:
    """Add dead letters to the result of a group, if they have thresholds.

    >>> well = CheckResult("group billing", "no lag")
    >>> add_dead_letters(well, 3, Thresholds(0)).status_line()
    'WARNING group billing: it has 3 dead letters, more than 0 | dead_letters=3;0;'
    >>> add_dead_letters(well, 3, Thresholds()) == well
    True
    """
    if limits == NO_THRESHOLDS:
        return result
    reasons = result.reasons
    if (limit := limits.exceeded(dead)) is not None:
        reasons += (
            CheckReason(limits.status_of(dead), f"it has {pluralize(dead, 'dead letter')}, more than {limit:,.0f}"),
        )
    return replace(
        result, reasons=reasons, metrics=(*result.metrics, CheckMetric("dead_letters", dead, thresholds=limits))
    )


def evaluate_topic(view: TopicDescription, *, skew: Thresholds, brokers: int = 0) -> CheckResult:
    """Check that a topic can be written to and read, on enough brokers, and is evenly filled."""
    writable = _queue_count(view.counts, Permission.WRITE)
    readable = _queue_count(view.counts, Permission.READ)
    reasons = []
    if not writable:
        reasons.append(_critical("no queue can be written to"))
    if not readable:
        reasons.append(_critical("no queue can be read"))
    closed = [each.broker for each in view.counts if not (each.write and each.permission & Permission.WRITE)]
    if writable and closed:
        reasons.append(_warning(f"it cannot be written to on {', '.join(closed)}"))
    if len(view.counts) < brokers:
        reasons.append(_critical(f"only {pluralize(len(view.counts), 'broker')} of {brokers} have it"))
    weighed = measure_skew({each.queue: each.messages for each in view.queues})
    times = round(weighed.ratio, 2) if weighed.mean >= _MIN_PER_QUEUE else 1.0
    if (limit := skew.exceeded(times)) is not None:
        sentence = f"{weighed.busiest} holds {times:.1f} times what queues hold on average, more than {limit:g}"
        reasons.append(CheckReason(skew.status_of(times), sentence))
    metrics = (
        CheckMetric("writable", writable),
        CheckMetric("readable", readable),
        CheckMetric("brokers", len(view.counts)),
        CheckMetric("messages", view.messages),
        CheckMetric("skew", times, thresholds=skew),
    )
    ok_text = (
        f"{pluralize(writable, 'queue')} to write and {readable} to read on {pluralize(len(view.counts), 'broker')}"
    )
    return CheckResult(
        f"topic {view.name}", f"{ok_text}, {pluralize(view.messages, 'message')}", tuple(reasons), metrics
    )


def _queue_count(counts: Sequence[QueueCounts], wanted: Permission) -> int:
    return sum(each.write if wanted is Permission.WRITE else each.read for each in counts if each.permission & wanted)


def evaluate_send(topic: str | None, trips: Sequence[RoundTrip], *, took: Thresholds) -> CheckResult:
    """Check round trips of messages; thresholds are in seconds."""
    reasons = []
    for each in trips:
        if each.problem is not None:
            reasons.append(_critical(f"{each.broker}: {each.problem}"))
        elif (limit := took.exceeded(each.round_trip_ms / 1000)) is not None:
            level = took.status_of(each.round_trip_ms / 1000)
            sentence = f"round trip via {each.broker} took {each.round_trip_ms:.0f} ms, more than {limit * 1000:.0f} ms"
            reasons.append(CheckReason(level, sentence))
    back = [each for each in trips if each.problem is None]
    metrics = tuple(_round_trip_metrics(back, took))
    slowest = max((each.round_trip_ms for each in back), default=0.0)
    ok_text = f"{pluralize(len(back), 'round trip')}, the slowest in {slowest:.0f} ms"
    return CheckResult(f"send {topic}" if topic else "send", ok_text, tuple(reasons), metrics)


def _round_trip_metrics(back: Sequence[RoundTrip], took: Thresholds) -> Iterator[CheckMetric]:
    several = len(back) > 1
    for each in back:
        ending = f"_{each.broker}" if several else ""
        yield CheckMetric(f"send{ending}", round(each.send_ms / 1000, 6), "s")
        yield CheckMetric(f"there_and_back{ending}", round(each.round_trip_ms / 1000, 6), "s", took)


def _lag_text(lag: int) -> str:
    return "no lag" if not lag else f"a lag of {pluralize(lag, 'message')}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"
