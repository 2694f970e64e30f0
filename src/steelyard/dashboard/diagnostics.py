"""What looks wrong in a cluster, by its snapshot: a sentence each, and what it is about. Pure: rows in, warnings out.

Problems inside a group were found before (balance/group/diagnostics.py, broker/group_warnings.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from steelyard.dashboard.cluster_snapshot import GroupRow, ServerRow, TopicRow, WarningRow
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_duration, format_percent, pluralize

_DISK_WARN, _DISK_CRITICAL = 0.75, 0.90
"""Apache's brokers delete early from the first on, and reject messages from the second on."""
_DAY_MS = 86_400_000


def broker_warnings(brokers: Iterable[ServerRow]) -> Iterator[WarningRow]:
    """Find servers that do not answer, and disks that are nearly full."""
    for each in brokers:
        who = each.name if each.id == 0 else f"{each.name} (replica {each.id})"
        if each.problem is not None:
            yield WarningRow(
                "broker", each.name, "silent", f"{who} at {each.address} does not answer: {each.problem}", True
            )
        elif each.disk_used is not None and each.disk_used >= _DISK_WARN:
            is_severe = each.disk_used >= _DISK_CRITICAL
            next_step = "it may reject messages" if is_severe else "it will delete old messages early"
            yield WarningRow(
                "broker",
                each.name,
                "disk",
                f"the disk of {who} is {format_percent(each.disk_used)} full; {next_step}",
                is_severe,
            )


def gone_broker_warnings(gone: Mapping[str, int], now_ms: int) -> Iterator[WarningRow]:
    """Find brokers that are not registered any more, by when they last were."""
    for name, seen_ms in gone.items():
        sentence = (
            f"{name} was last registered at the name servers {_ago(now_ms, seen_ms)}: "
            "its messages cannot be read until it is back"
        )
        yield WarningRow("broker", name, "gone", sentence, True)


def topic_warnings(topics: Iterable[TopicRow]) -> Iterator[WarningRow]:
    """Find user topics that no broker has, or that have no readable queue."""
    for each in topics:
        if each.kind != "users":
            continue
        if not each.brokers:
            sentence = f"the topic {each.name} is registered at the name servers, but no broker that answers has it"
            yield WarningRow("topic", each.name, "nowhere", sentence)
        elif not each.queues:
            yield WarningRow("topic", each.name, "no queues", f"the topic {each.name} has no readable queues", True)


def group_warnings(row: GroupRow, found: Iterable[Finding]) -> Iterator[WarningRow]:
    """Return what was found in a group, and whether it has lag and no members."""
    for finding in found:
        yield WarningRow("group", row.name, finding.kind, finding.message, finding.severity is Severity.ERROR)
    if row.members == 0 and row.lag:
        sentence = f"group {row.name} has no member online and a lag of {pluralize(row.lag, 'message')}"
        yield WarningRow("group", row.name, "no members", sentence)


def dead_letter_warning(
    group: str, messages: int, died_ms: int | None, growth: int, span_ms: int, now_ms: int
) -> WarningRow | None:
    """Report the dead letters of a group if there are new ones, or if the last is less than a day old."""
    if growth:
        sentence = (
            f"group {group} gave up {pluralize(growth, 'message')} within the last {format_duration(span_ms / 1_000)}; "
            f"it has {pluralize(messages, 'dead letter')}"
        )
        return WarningRow("dead letters", group, "growing dead letters", sentence, True)
    if messages and died_ms is not None and now_ms - died_ms < _DAY_MS:
        sentence = f"group {group} gave up {pluralize(messages, 'message')}, the last {_ago(now_ms, died_ms)}"
        return WarningRow("dead letters", group, "dead letters", sentence)
    return None


def _ago(now_ms: int, then_ms: int) -> str:
    return f"{format_duration(max(0, now_ms - then_ms) / 1_000)} ago"


def sort_by_severity(warnings: Iterable[WarningRow]) -> tuple[WarningRow, ...]:
    """Put the severe ones first; otherwise keep the order."""
    return tuple(sorted(warnings, key=lambda each: not each.is_severe))


def missing_notes(brokers: Sequence[ServerRow], groups: Mapping[str, GroupRow], asked: Sequence[str]) -> Iterator[str]:
    """Describe what a cluster does not report; ``asked`` are groups whose members must be asked for their queues."""
    silent = [each.name for each in brokers if each.problem is None and each.disk_used is None]
    if silent:
        yield f"{_name_some(silent)} does not report its disk usage."
    broadcast = [each.name for each in groups.values() if each.broadcast]
    if broadcast:
        yield f"Only its members know the lag of the broadcast group {_name_some(broadcast)}."
    if asked:
        yield f"No broker knows the queue owners of {_name_some(asked)}: members are asked now and then."
    unread = [each.name for each in groups.values() if each.notes]
    if unread:
        yield f"Some facts about {_name_some(unread)} are unknown; see the view of the group."


def _name_some(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
