"""What looks wrong in a snapshot: rows in, findings of `steelyard.diagnostics` out, as the dashboard shows them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from steelyard.client.times import from_epoch_ms
from steelyard.dashboard.cluster_snapshot import GroupRow, ServerRow, TopicRow, WarningRow
from steelyard.diagnostics.group import dead_letters
from steelyard.diagnostics.servers import BrokerFacts, diagnose_brokers, gone_broker
from steelyard.diagnostics.topic import TopicFacts, diagnose_topic
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_duration


def warning_row(about: str, name: str, finding: Finding) -> WarningRow:
    """Return a finding as the page shows it, with what it is about."""
    subject = f"{finding.subject}: " if finding.subject else ""
    is_severe = finding.severity is Severity.ERROR
    return WarningRow(about, name, finding.rule, f"{subject}{finding}", is_severe, dict(finding.evidence))


def broker_warnings(brokers: Iterable[ServerRow], gone: Mapping[str, int], now_ms: int) -> Iterator[WarningRow]:
    """Find servers that do not answer, are slow, reject messages or are gone, and disks that are nearly full."""
    facts = {
        (each.name, each.id): BrokerFacts(
            name=each.name if each.id == 0 else f"{each.name} (replica {each.id})",
            problem=None if each.problem is None else f"at {each.address}: {each.problem}",
            disk_used=each.disk_used,
            refusal=each.refusal,
            answer_ms=each.answer_ms,
            version=each.version or "",
        )
        for each in brokers
    }
    names = {f"broker {each.name}": name for (name, _), each in facts.items()}
    for finding in diagnose_brokers(list(facts.values())):
        if finding.severity is not Severity.OK:
            yield warning_row("broker", names.get(finding.subject, ""), finding)
    for name, seen_ms in gone.items():
        ago = f"{format_duration(max(0, now_ms - seen_ms) / 1_000)} ago"
        yield warning_row("broker", name, gone_broker(name, ago))


def topic_warnings(topics: Iterable[TopicRow]) -> Iterator[WarningRow]:
    """Find user topics that no broker has, or that cannot be written to or read."""
    for each in topics:
        if each.kind == "users":
            may_read, may_write = (word in each.permission for word in ("read", "write"))
            facts = TopicFacts(
                name=each.name, brokers=len(each.brokers), readable=each.queues, may_read=may_read, may_write=may_write
            )
            yield from (warning_row("topic", each.name, finding) for finding in diagnose_topic(facts))


def dead_letter_warnings(
    group: str, messages: int, died_ms: int | None, growth: int, span_ms: int, now_ms: int
) -> Iterator[WarningRow]:
    """Find dead letters of a group that are new, or less than a day old."""
    now, last = from_epoch_ms(now_ms), None if died_ms is None else from_epoch_ms(died_ms)
    if now is not None:
        found = dead_letters(group, messages, last, now, growth=growth, span_s=span_ms / 1_000)
        yield from (warning_row("dead letters", group, finding) for finding in found)


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
