"""Contents to make reports of: a group of members over some queues, with a heavy key, moves and a killed member."""

from steelyard.balance.assignors import AssignmentPlan, find_strategy, plan
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.diagnostics.group import ProgressSample
from steelyard.model import Queue
from steelyard.pipelines.report.contents import (
    KeyInQueue,
    KeyLoad,
    QueueLoad,
    ReportContents,
    TimeStepLoad,
    TopicTraffic,
)
from steelyard.pipelines.report.ownership import LEAVE_REASON, LagSample, OwnershipEvent
from steelyard.pipelines.report.rebalance_history import build_history

START_MS = 1_793_520_000_000


def queues_of(number: int, topic: str = "orders") -> list[Queue]:
    """Name queues on two brokers."""
    return [Queue(topic, f"broker-{'ab'[each * 2 // max(number, 1)]}", each) for each in range(number)]


def member_id(number: int) -> str:
    """Name a member as ours are named."""
    return f"10.0.0.{number}@till-{number}#{4700 + number}#17935200{number:02d}#ab12cd34ef56ab12@sy1"


def shift(
    before: AssignmentPlan, after: AssignmentPlan, at_ms: int, why: str, *, gap_ms: int = 120
) -> list[OwnershipEvent]:
    """Return what members write when one plan follows another, each hand-over with the same gap."""
    events = []
    for name, had in before.items():
        kept = tuple(queue for queue in had if queue in after.get(name, ()))
        if name not in after:
            events.append(OwnershipEvent(at_ms, name, (), LEAVE_REASON))
        elif len(kept) < len(had):
            events.append(OwnershipEvent(at_ms, name, kept, why))
    for name, mine in after.items():
        if set(mine) - set(before.get(name, ())):
            events.append(OwnershipEvent(at_ms + gap_ms, name, tuple(mine), why))
    return events


def events_of(number: int, members: int) -> list[OwnershipEvent]:
    """Return what members write that join one after the other; then the second one is killed."""
    queues, group = queues_of(number), "billing"
    events: list[OwnershipEvent] = []
    owned: AssignmentPlan = {}
    for joined in range(1, members + 1):
        names = [member_id(each) for each in range(1, joined + 1)]
        after = plan(find_strategy("sticky"), group, queues, names, previous=owned)
        why = f"{names[-1]} joined"
        events += shift(owned, after, START_MS + 20_000 * joined, why, gap_ms=80 + 37 * joined)
        owned = after
    killed = member_id(2)
    staying = [name for name in owned if name != killed]
    after = plan(find_strategy("sticky"), group, queues, staying, previous=owned)
    at_ms = START_MS + 20_000 * (members + 2)
    events += [
        OwnershipEvent(at_ms + 40 * place, name, tuple(after[name]), f"{killed} left")
        for place, name in enumerate(staying)
    ]
    return events


def traffic_of(number: int) -> TopicTraffic:
    """Make up what was written: one key is heavy, one queue gets nothing, the rest goes up and down."""
    rows = []
    steps: dict[tuple[int, str], int] = {}
    for place, queue in enumerate(queues_of(number)):
        mine = {START_MS + 5_000 * step: 20 + (place * 17 + step * 29) % 41 for step in range(48)}
        if place == 3:
            mine = {at: 4 * each + (200 if step > 30 else 0) for step, (at, each) in enumerate(mine.items())}
        if place == 9:
            mine = {}
        for at, each in mine.items():
            steps[at, queue.broker] = steps.get((at, queue.broker), 0) + each
        total = sum(mine.values())
        heavy = KeyInQueue(
            "customer-7" if place == 3 else f"customer-{place * 11}", total * (7 if place == 3 else 1) // 10
        )
        rows.append(QueueLoad(queue, total, total * 143, heavy if total else None))
    keys = [
        KeyLoad(row.heaviest.key, row.heaviest.messages, row.heaviest.messages * 143, 1, row.queue)
        for row in rows
        if row.heaviest
    ]
    return TopicTraffic(
        queues=tuple(rows),
        keys=tuple(sorted(keys, key=lambda each: -each.messages)[:20]),
        keyed=sum(row.messages for row in rows),
        distinct_keys=number * 23,
        step_ms=5_000,
        steps=tuple(TimeStepLoad(at, broker, many, many * 143) for (at, broker), many in sorted(steps.items())),
    )


def _view(study_queues: list[Queue], members: int, events: list[OwnershipEvent]) -> GroupDescription:
    owned: dict[str, tuple[Queue, ...]] = {event.id: event.queues for event in events if event.id != member_id(2)}
    there = [name for name in map(member_id, range(1, members + 1)) if name != member_id(2)]
    facts = GroupFacts(
        group="billing",
        at_ms=START_MS + 300_000,
        members=tuple(
            MemberDescription(name, "10.0.0.1:5000", ours=True, strategy="STICKY", topics=("orders",)) for name in there
        ),
        queues=tuple(study_queues),
        locked={queue: name for name, queues in owned.items() for queue in queues},
        our_brokers=frozenset({"broker-a", "broker-b"}),
        progress={
            queue: ProgressSample(START_MS, 1_000, 1_000 + 37 * place + (9_000 if place == 3 else 0))
            for place, queue in enumerate(study_queues)
        },
    )
    return describe_group(facts)


def busy_contents(number: int = 64, members: int = 5) -> ReportContents:
    """Return contents with something to see in every section."""
    queues, events = queues_of(number), events_of(number, members)
    return ReportContents(
        topic="orders",
        group="billing",
        at_ms=START_MS + 300_000,
        traffic=traffic_of(number),
        group_view=_view(queues, members, events),
        history=build_history(events, "orders"),
        lag_samples=tuple(LagSample(START_MS + 1_000 * each, 400 + each * each) for each in range(60)),
        notes=("2 lines of till-1.log are no events and were skipped",),
    )
