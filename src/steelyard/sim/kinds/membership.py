"""Histories in which members come and go: as planned, by crashes, by hanging, in storms."""

from steelyard.sim.kinds.draft import Draft
from steelyard.sim.plan import FaultKind

__all__ = ["churn", "crash", "hung", "storm"]

_NOTICED_MS = 23_000
"""Until a broker of ours has noticed that a member is silent, and its queues are in other hands."""


def churn(draft: Draft) -> None:
    """Draw joins and leaves alone: nothing fails, so nothing may be handled twice."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic)
    draft.members(group, 1, 3)
    for _ in range(draft.between(1, 4)):
        joins_ms = draft.between(1_000, 8_000)
        stays_ms = draft.between(50, 5_000)
        draft.member(group, joins_ms=joins_ms, leaves_ms=joins_ms + stays_ms if draft.chance(70) else None)
    draft.traffic(topic)


def crash(draft: Draft) -> None:
    """Draw members that are killed, some of which are started again."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 2, 5)
    for member in draft.random.sample(members, draft.between(1, len(members))):
        for_ms = draft.one_of((0, 0, 50, 1_000, 3_000))
        draft.fault(FaultKind.KILL, member, at_ms=draft.between(2_000, 8_000), for_ms=for_ms)
    draft.traffic(topic)


def hung(draft: Draft) -> None:
    """Draw members that stand still for a while, or whose machine vanishes without a word."""
    draft.brokers(ours=draft.chance(85), most=1)
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 2, 4)
    for member in draft.random.sample(members, draft.between(1, len(members) - 1)):
        at_ms = draft.between(2_000, 8_000)
        if draft.chance(30):
            draft.fault(FaultKind.VANISH, member, at_ms=at_ms)
            draft.lasts(at_ms + _NOTICED_MS)
        else:
            draft.fault(FaultKind.PAUSE, member, at_ms=at_ms, for_ms=draft.one_of((500, 2_000, 8_000, 14_000, 20_000)))
    draft.traffic(topic)


def storm(draft: Draft) -> None:
    """Draw many joins and leaves at once, with notices that get lost."""
    draft.brokers()
    topic = draft.topic(queues=draft.between(4, 12))
    group = draft.group(topic)
    draft.lost_notices_percent = draft.one_of((0, 20, 50, 100))
    draft.members(group, 1, 2, by_ms=500)
    at_ms = draft.between(2_000, 4_000)
    for _ in range(draft.between(4, 8)):
        joins_ms = at_ms + draft.between(0, 300)
        leaves_ms = draft.one_of((None, at_ms + draft.between(3_000, 3_300), joins_ms + draft.between(1, 1_000)))
        draft.member(group, joins_ms=joins_ms, leaves_ms=leaves_ms)
    draft.traffic(topic, ends_ms=8_000)
