"""What looks wrong in a cluster, by its survey: sentences, and where each can be seen. Pure: rows in, hazards out.

What is wrong inside a group was found by whoever looked at it (balance/hazards.py, broker/hazards.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from steelyard.balance.hazards import Hazard
from steelyard.dashboard.survey.values import BrokerRow, GroupRow, HazardRow, TopicRow
from steelyard.model.times_in_words import in_short

__all__ = [
    "broker_hazards",
    "dead_letter_hazard",
    "gone_brokers",
    "group_hazards",
    "in_order_of_weight",
    "topic_hazards",
    "untold",
]

_DISK_LOOK, _DISK_BAD = 0.75, 0.90
"""Apache's brokers begin to delete early at the first, and take no messages from the second on."""
_HARMLESS = ("idle members", "foreign members", "different topics")
_DAY_MS = 86_400_000


def broker_hazards(brokers: Iterable[BrokerRow]) -> Iterator[HazardRow]:
    """Find servers that do not answer, and disks that are nearly full."""
    for each in brokers:
        who = each.name if each.id == 0 else f"{each.name} (replica {each.id})"
        if each.problem is not None:
            yield HazardRow(
                "broker", each.name, "silent", f"{who} at {each.address} tells nothing: {each.problem}", True
            )
        elif each.disk_used is not None and each.disk_used >= _DISK_LOOK:
            is_bad = each.disk_used >= _DISK_BAD
            next_step = "it may refuse messages" if is_bad else "it will delete old messages early"
            yield HazardRow(
                "broker", each.name, "disk", f"the disk of {who} is {each.disk_used:.0%} full; {next_step}", is_bad
            )


def gone_brokers(gone: Mapping[str, int], now_ms: int) -> Iterator[HazardRow]:
    """Tell of brokers that were seen, at what time, and that name servers do not name any more."""
    for name, seen_ms in gone.items():
        sentence = (
            f"name servers named {name} until {in_short(max(0, now_ms - seen_ms) / 1_000)} ago, and do not any more: "
            "what lies on it cannot be read until it is back"
        )
        yield HazardRow("broker", name, "gone", sentence, True)


def topic_hazards(topics: Iterable[TopicRow]) -> Iterator[HazardRow]:
    """Find users' topics that no broker has, or that have no queue to read."""
    for each in topics:
        if each.kind != "users":
            continue
        if not each.brokers:
            sentence = f"name servers know the topic {each.name}, and no broker that answers has it"
            yield HazardRow("topic", each.name, "nowhere", sentence)
        elif not each.queues:
            yield HazardRow("topic", each.name, "no queues", f"the topic {each.name} has no queues to read", True)


def group_hazards(row: GroupRow, found: Iterable[Hazard]) -> Iterator[HazardRow]:
    """Tell what was found in a group, and whether messages wait for it while nobody is there."""
    for hazard in found:
        yield HazardRow("group", row.name, hazard.kind, hazard.sentence, not hazard.kind.startswith(_HARMLESS))
    if row.members == 0 and row.lag:
        wait = f"{row.lag:,} messages wait" if row.lag != 1 else "1 message waits"
        yield HazardRow("group", row.name, "nobody online", f"nobody of group {row.name} is online, and {wait} for it")


def dead_letter_hazard(
    group: str, messages: int, died_ms: int | None, grown: int, span_ms: int, now_ms: int
) -> HazardRow | None:
    """Tell of messages that a group gave up: if more come now, or if the last came within a day."""
    if grown:
        sentence = (
            f"group {group} gave up {_messages(grown)} within the last {in_short(span_ms / 1_000)}; it has "
            f"{messages:,} dead letters"
        )
        return HazardRow("dead letters", group, "growing dead letters", sentence, True)
    if messages and died_ms is not None and now_ms - died_ms < _DAY_MS:
        ago = in_short(max(0, now_ms - died_ms) / 1_000)
        return HazardRow(
            "dead letters", group, "dead letters", f"group {group} gave up {_messages(messages)}, the last {ago} ago"
        )
    return None


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def in_order_of_weight(hazards: Iterable[HazardRow]) -> tuple[HazardRow, ...]:
    """Put the worst first; what is equally bad stays in its order."""
    return tuple(sorted(hazards, key=lambda each: not each.is_bad))


def untold(brokers: Sequence[BrokerRow], groups: Mapping[str, GroupRow], asked: Sequence[str]) -> Iterator[str]:
    """Say what a cluster does not tell; ``asked`` are groups whose members have to be asked who has what."""
    silent = [each.name for each in brokers if each.problem is None and each.disk_used is None]
    if silent:
        yield f"How full the disk of {_some(silent)} is, it does not tell."
    broadcast = [each.name for each in groups.values() if each.broadcast]
    if broadcast:
        yield f"How far {_some(broadcast)} is behind, only its members know: each of them gets all messages."
    if asked:
        yield f"Who has which queue of {_some(asked)}, no broker knows: members are asked now and then."
    unread = [each.name for each in groups.values() if each.notes]
    if unread:
        yield f"Not everything could be found out of {_some(unread)}; the group's page says what."


def _some(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
