"""What topics and groups say about why it does not work. Pure: facts in, findings out."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from steelyard.balance.hazards import Hazard
from steelyard.cli.doctor.finding import Finding, look, ok, wrong
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.moments import in_short
from steelyard.cli.frame.short_names import short_names, shortened
from steelyard.client.admin.topics import Topic, TopicKind
from steelyard.client.checkup.facts import GroupSeen
from steelyard.model import Permission

__all__ = ["judge_groups", "judge_topics"]

_HARMLESS = ("idle members", "foreign members", "different topics")
_STUCK = timedelta(minutes=1)
"""A message that waits longer while nothing moves is not just next in a queue."""
_NAMED = 3


def judge_topics(topics: Sequence[Topic] | None) -> Iterator[Finding]:
    """Judge the users' topics: each has queues, and can be written to and read."""
    if topics is None:
        return
    users = [topic for topic in topics if topic.kind is TopicKind.USERS]
    bad = [finding for topic in users for finding in _topic(topic)]
    yield from bad
    if not users:
        yield ok("topics", "there is none yet; the first message of a topic makes it, or: steelyard topic create NAME")
    elif not bad:
        yield ok("topics", f"{_count(len(users), 'topic')}, with queues to write and to read")


def _topic(topic: Topic) -> Iterator[Finding]:
    about = f"topic {topic.name}"
    if not topic.brokers:
        yield look(
            about,
            "name servers know it, and no broker that can be reached has it",
            f"see whether its broker is down; if it is gone for good: steelyard topic delete {topic.name}",
        )
    elif not topic.queues:
        yield wrong(about, "it has no queues to read", f"give it some: steelyard topic add-queues {topic.name} --to 8")
    elif not topic.permission & Permission.WRITE:
        yield look(
            about,
            "it cannot be written to",
            f"if that is not wanted: steelyard topic set {topic.name} --may read-write",
        )
    elif not topic.permission & Permission.READ:
        yield look(
            about, "it cannot be read", f"if that is not wanted: steelyard topic set {topic.name} --may read-write"
        )


def judge_groups(groups: Sequence[GroupSeen], now: datetime) -> Iterator[Finding]:
    """Judge every group: who is there, what stands still, what it gave up, and what looks wrong."""
    for each in groups:
        found = list(_group(each, now))
        yield from found or [ok(f"group {each.view.group}", _how(each))]


def _how(seen: GroupSeen) -> str:
    view = seen.view
    waiting = f"{_count(view.lag, 'message')} waiting" if view.lag else "nothing waiting"
    members = _count(len(view.members), "member") if view.members else "nobody"
    return f"{members} online, {_count(len(view.queues), 'queue')}, {waiting}"


def _group(seen: GroupSeen, now: datetime) -> Iterator[Finding]:
    view = seen.view
    about, names = f"group {view.group}", short_names(view.owned())
    if not view.members and view.lag:
        yield look(
            about,
            f"nobody is online, and {_count(view.lag, 'message')} wait{'s' if view.lag == 1 else ''}",
            "start its consumers; if they run, see whether their group and name servers are these",
        )
    for hazard in view.hazards:
        yield _hazard(about, view.group, hazard, shortened(hazard.sentence, names))
    stuck = {queue: long for queue, long in seen.still.items() if long >= _STUCK}
    if stuck:
        longest = max(stuck.values()).total_seconds()
        owners = sorted({each.owner for each in view.queues if each.queue in stuck and each.owner})
        queues = ", ".join(str(queue) for queue in list(stuck)[:_NAMED])
        more = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
        # A handler that takes its time looks the same, so nothing is said to be wrong.
        yield look(
            about,
            f"{queues}{more} did not move for some seconds, and their oldest message has waited for "
            f"{in_short(longest)}",
            f"see what the handlers of {shortened(', '.join(owners[:_NAMED]), names)} wait for: "
            f"steelyard group explain {view.group}",
        )
    if seen.dead:
        last = f", the last {in_short((now - seen.died_at).total_seconds())} ago" if seen.died_at is not None else ""
        yield look(
            about,
            f"it gave up {_count(seen.dead, 'message')}{last}",
            f"see why: steelyard dead-letters ls {view.group}",
        )
    for note in view.notes:
        yield look(about, shortened(note, names))


def _hazard(about: str, group: str, hazard: Hazard, sentence: str) -> Finding:
    what, _, step = sentence.rpartition("; ")
    if not what:
        what, step = sentence, ""
    if hazard.kind in _HARMLESS:
        return look(about, what, step)
    return wrong(about, what, step or f"see who has what: steelyard group explain {group}")


def _count(number: int, noun: str) -> str:
    return counted(number, noun, by_thousands=True)
