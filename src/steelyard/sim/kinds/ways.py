"""Histories of the other ways to send and to receive: in order, to everybody, again, in two steps, beside Java."""

from steelyard.sim.kinds.draft import Draft
from steelyard.sim.plan import FaultKind

__all__ = ["broadcast", "mixed", "order", "retry", "transaction", "wild"]

_WILD = (
    FaultKind.KILL,
    FaultKind.PAUSE,
    FaultKind.CUT,
    FaultKind.STUCK,
    FaultKind.JAM,
    FaultKind.CLOCK_JUMP,
)


def order(draft: Draft) -> None:
    """Draw groups for which the order of messages of one key matters, with joins, leaves and now and then a crash."""
    draft.brokers()
    topic = draft.topic()
    # Where one try is all there is, what fails twice rests in the dead letters.
    group = draft.group(topic, mode="orderly", most_tries=draft.one_of((1, 2, 16, 16)))
    work = draft.work(failing_percent=draft.one_of((0, 0, 5)), failures=draft.between(1, 2))
    members = draft.members(group, 1, 3, work=work)
    for _ in range(draft.between(0, 3)):
        joins_ms = draft.between(1_000, 8_000)
        leaves_ms = joins_ms + draft.between(100, 5_000) if draft.chance(60) else None
        draft.member(group, joins_ms=joins_ms, leaves_ms=leaves_ms, work=work)
    if draft.chance(40):
        draft.fault(FaultKind.KILL, draft.one_of(members), at_ms=draft.between(2_000, 8_000), for_ms=1_000)
    if draft.chance(30):
        broker = draft.one_of(draft.broker_names)
        draft.fault(FaultKind.CUT, draft.one_of(members), other=broker, at_ms=draft.between(2_000, 8_000), for_ms=250)
    draft.traffic(topic, style="keyed")


def broadcast(draft: Draft) -> None:
    """Draw groups of which every member gets every message."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic, mode="broadcast")
    members = draft.members(group, 1, 3, by_ms=900)
    draft.traffic(topic, least=30)
    if draft.chance(50):
        broker = draft.one_of(draft.broker_names)
        draft.fault(FaultKind.CUT, draft.one_of(members), other=broker, at_ms=draft.between(2_000, 8_000), for_ms=500)


def retry(draft: Draft) -> None:
    """Draw handlers that fail, so that messages go back and come again; now and then one of them dies."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic)
    work = draft.work(failing_percent=draft.between(5, 40), failures=draft.between(1, 2))
    members = draft.members(group, 1, 3, work=work)
    draft.traffic(topic, ends_ms=6_000, least=30)
    if draft.chance(30):
        draft.fault(FaultKind.KILL, draft.one_of(members), at_ms=draft.between(2_000, 7_000), for_ms=500)
    if draft.chance(30):
        broker = draft.one_of(draft.broker_names)
        draft.fault(FaultKind.CUT, draft.one_of(members), other=broker, at_ms=draft.between(2_000, 7_000), for_ms=200)


def transaction(draft: Draft) -> None:
    """Draw messages that are sent in two steps, and producers that die between them."""
    draft.brokers(ours=True)
    topic = draft.topic()
    group = draft.group(topic)
    draft.members(group, 1, 3)
    for _ in range(draft.between(1, 2)):
        draft.producer(
            topic,
            messages=draft.between(15, 50),
            ends_ms=8_000,
            style="transactional",
            rollback_percent=draft.one_of((0, 20, 50)),
        )
    if draft.chance(40):
        at_ms = draft.between(2_000, 7_000)
        draft.fault(FaultKind.CUT, "p1", other=draft.one_of(draft.broker_names), at_ms=at_ms, for_ms=500)
    if draft.chance(40):
        draft.fault(FaultKind.KILL, draft.one_of(draft.broker_names), at_ms=draft.between(2_000, 8_000), for_ms=300)


def mixed(draft: Draft) -> None:
    """Draw groups in which members of ours and Java's work side by side."""
    draft.brokers()
    topic = draft.topic()
    group = draft.group(topic, mode=draft.one_of(("concurrent", "concurrent", "orderly")))
    for number in range(draft.between(2, 5)):
        joins_ms = draft.between(100, 6_000)
        leaves_ms = draft.between(7_000, 9_000) if number > 1 and draft.chance(50) else None
        draft.member(group, joins_ms=joins_ms, leaves_ms=leaves_ms, is_ours=number != 1 and draft.chance(60))
    draft.traffic(topic)


def wild(draft: Draft) -> None:
    """Draw a bit of everything at once."""
    draft.brokers()
    draft.name_servers = draft.between(1, 2)
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 2, 4)
    for _ in range(draft.between(0, 2)):
        joins_ms = draft.between(2_000, 8_000)
        draft.member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.between(100, 4_000))
    draft.traffic(topic)
    for _ in range(draft.between(2, 6)):
        at_ms = draft.between(1_500, 9_000)
        member, broker = draft.one_of(members), draft.one_of(draft.broker_names)
        for_ms = draft.one_of((50, 300, 1_500, 4_000))
        kind = draft.one_of(_WILD)
        if kind in (FaultKind.CUT, FaultKind.STUCK, FaultKind.JAM):
            draft.fault(kind, member, other=broker, at_ms=at_ms, for_ms=for_ms)
        elif kind is FaultKind.CLOCK_JUMP:
            draft.fault(kind, draft.one_of((member, broker)), at_ms=at_ms, amount=draft.one_of((-5_000, 5_000)))
        else:
            draft.fault(kind, draft.one_of((member, member, broker)), at_ms=at_ms, for_ms=for_ms)
