"""Histories in which lines and clocks fail."""

from steelyard.sim.kinds.draft import Draft
from steelyard.sim.plan import FaultKind

__all__ = ["clock", "network"]

_LINE_FAULTS = (
    FaultKind.CUT,
    FaultKind.CUT,
    FaultKind.ONE_WAY,
    FaultKind.HALF_OPEN,
    FaultKind.STUCK,
    FaultKind.STUCK,
    FaultKind.JAM,
    FaultKind.SLOW,
)


def network(draft: Draft) -> None:
    """Draw lines that are cut, stuck, jammed, slow or dead one way, now and then while queues change hands."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 2, 4)
    for _ in range(draft.one_of((0, 0, 1, 3))):
        joins_ms = draft.between(2_000, 8_000)
        members.append(draft.member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.between(100, 4_000)))
    draft.traffic(topic)
    for _ in range(draft.between(1, 5)):
        kind = draft.one_of(_LINE_FAULTS)
        one, other = draft.one_of((*members, *members, "p1")), draft.one_of(draft.broker_names)
        if kind is FaultKind.ONE_WAY and draft.chance(50):
            one, other = other, one
        for_ms = draft.one_of((0, 50, 250, 1_000, 4_000)) if kind is FaultKind.CUT else draft.between(50, 4_000)
        amount = draft.between(20, 800) if kind is FaultKind.SLOW else 0
        draft.fault(kind, one, other=other, at_ms=draft.between(1_500, 9_000), for_ms=for_ms, amount=amount)


def clock(draft: Draft) -> None:
    """Draw clocks that jump, and clocks that run fast or slow."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 2, 4)
    draft.traffic(topic)
    for name in (*members, *draft.broker_names):
        if draft.chance(50):
            # Quartz is good to 100 parts in a million; a thousand is a broken clock.
            draft.fault(FaultKind.CLOCK_SKEW, name, at_ms=100, amount=draft.between(-1_000, 1_000))
    for _ in range(draft.between(1, 3)):
        target = draft.one_of((*members, *draft.broker_names))
        # By the clock on the wall Apache measures everything: what it is told in the hour that was not, it does
        # an hour later.
        most_ms = 3_600_000 if draft.is_ours or target in members else 20_000
        amount = draft.one_of((-most_ms, -20_000, -2_000, 2_000, 20_000, most_ms))
        draft.fault(FaultKind.CLOCK_JUMP, target, at_ms=draft.between(1_500, 9_000), amount=amount)
