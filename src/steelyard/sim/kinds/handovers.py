"""Histories in which queues change hands while there is much to lose.

They turn round on their way, under handlers that take long; or nobody has committed anything there yet; or so much time
has passed that locks are being renewed.
"""

from dataclasses import replace

from steelyard.sim.kinds.draft import Draft
from steelyard.sim.plan import FaultKind, Work

__all__ = ["flips", "late", "patience"]

_TROUBLES = (FaultKind.CUT, FaultKind.CUT, FaultKind.CUT, FaultKind.STUCK, FaultKind.ONE_WAY, FaultKind.PAUSE)


def flips(draft: Draft) -> None:
    """Draw members that come and go so fast that queues turn round on their way, under handlers that take long."""
    draft.brokers()
    topics = [draft.topic() for _ in range(draft.between(1, 2))]
    group = draft.group(*topics, drain_ms=draft.one_of((30_000, 30_000, 300, 1_000)))
    draft.lost_notices_percent = draft.one_of((0, 0, 50, 100))
    work = _slow(draft)
    members = draft.members(group, 1, 3, by_ms=500, work=work)
    turns: list[int] = []
    for _ in range(draft.between(1, 3)):
        at_ms = draft.between(1_500, 3_000)
        while at_ms < 8_000:
            leaves_ms = at_ms + draft.one_of((20, 100, 400, 1_500))
            draft.member(group, joins_ms=at_ms, leaves_ms=leaves_ms, work=work)
            turns += (at_ms, leaves_ms)
            at_ms = leaves_ms + draft.one_of((10, 100, 400, 2_000))
    for topic in topics:
        draft.traffic(topic, ends_ms=9_000, least=80)
    if draft.chance(60):
        for _ in range(draft.between(1, 4)):
            _trouble(draft, members, draft.one_of(turns) + draft.between(0, 1_000))


def _slow(draft: Draft) -> Work:
    work = draft.work(failing_percent=draft.one_of((0, 20)))
    slow_ms = draft.one_of((200, 800, 2_000))
    # As much as one member with one handler can do, should it be left alone with all.
    return replace(work, slow_percent=min(40, 15_000 // slow_ms), slow_ms=slow_ms)


def _trouble(draft: Draft, members: list[str], at_ms: int) -> None:
    member, broker = draft.one_of(members), draft.one_of(draft.broker_names)
    for_ms = draft.one_of((0, 50, 500, 2_000, 5_000))
    kind = draft.one_of(_TROUBLES)
    if kind is FaultKind.PAUSE:
        draft.fault(kind, member, at_ms=at_ms, for_ms=draft.one_of((300, 2_000, 4_000, 8_000)))
    else:
        draft.fault(kind, member, other=broker, at_ms=at_ms, for_ms=for_ms)


def late(draft: Draft) -> None:
    """Draw groups that begin with what is sent after they came, in topics that grow; members may die before that.

    Whoever comes anew takes what it finds for old: so nobody does while a topic grows.
    """
    draft.brokers()
    topic = draft.topic(queues=draft.between(1, 3))
    group = draft.group(topic, from_first=False)
    members = draft.members(group, 1, 3, by_ms=500)
    draft.producer(topic, messages=draft.between(30, 80), begins_ms=6_000, ends_ms=13_000)
    draft.lost_notices_percent = draft.one_of((0, 100))
    queues = 3
    for _ in range(draft.between(1, 2)):
        queues += draft.between(1, 3)
        at_ms = draft.between(9_500, 11_500)
        # One that comes now sees the new queues before anybody reads them.
        draft.producer(topic, messages=draft.between(10, 20), begins_ms=at_ms + 800, ends_ms=at_ms + 3_000)
        for broker in draft.broker_names:
            draft.fault(FaultKind.QUEUES, topic, other=broker, at_ms=at_ms + draft.between(0, 500), amount=queues)
    for member in members:
        if draft.chance(40):
            draft.fault(FaultKind.KILL, member, at_ms=draft.between(6_000, 7_500), for_ms=draft.one_of((50, 1_000)))


def patience(draft: Draft) -> None:
    """Draw groups in order that go on for minutes, so that locks are renewed, with a change now and then."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic, mode="orderly")
    draft.lost_notices_percent = draft.one_of((0, 50, 100))
    members = draft.members(group, 1, 2, by_ms=500)
    for _ in range(draft.between(3, 8)):
        joins_ms = draft.between(15_000, 70_000)
        draft.member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.between(50, 25_000))
    if draft.chance(40):
        broker = draft.one_of(draft.broker_names)
        at_ms, for_ms = draft.between(18_000, 60_000), draft.one_of((0, 250, 4_000))
        draft.fault(FaultKind.CUT, draft.one_of(members), other=broker, at_ms=at_ms, for_ms=for_ms)
    draft.producer(topic, messages=draft.between(40, 120), ends_ms=80_000, style="keyed")
