"""Histories in which servers fail: restarts, loss of power, disks that refuse, routes that change."""

from steelyard.sim.kinds.draft import Draft
from steelyard.sim.plan import FaultKind

__all__ = ["disk", "power", "restart", "routes"]


def restart(draft: Draft) -> None:
    """Draw servers that are killed and come back, perhaps without a member that they knew."""
    draft.brokers()
    draft.name_servers = draft.between(1, 2)
    topic = draft.topic()
    group = draft.group(topic)
    members = draft.members(group, 1, 4)
    if len(members) > 1 and draft.chance(40):
        for_ms = draft.one_of((0, 500))
        draft.fault(FaultKind.KILL, draft.one_of(members), at_ms=draft.between(2_000, 9_000), for_ms=for_ms)
    for _ in range(draft.between(1, 3)):
        for_ms = draft.one_of((20, 300, 1_500, 4_000))
        draft.fault(FaultKind.KILL, draft.one_of(draft.broker_names), at_ms=draft.between(2_000, 9_000), for_ms=for_ms)
    if draft.chance(40):
        draft.fault(FaultKind.KILL, "ns1", at_ms=draft.between(1_000, 6_000), for_ms=draft.between(500, 5_000))
    draft.traffic(topic)


def power(draft: Draft) -> None:
    """Draw brokers of ours that lose power; what a sync flush has promised must still be there."""
    draft.brokers(ours=True, sync_flush=draft.chance(60))
    topic = draft.topic()
    group = draft.group(topic)
    draft.members(group, 1, 3)
    for _ in range(draft.between(1, 3)):
        for_ms = draft.one_of((50, 500, 3_000))
        # Offsets are saved every 5 s, and the log of an async broker later than that: between the two they lead.
        at_ms = draft.between(4_950, 5_450) if draft.chance(40) else draft.between(2_000, 9_000)
        draft.fault(FaultKind.POWER, draft.one_of(draft.broker_names), at_ms=at_ms, for_ms=for_ms)
    draft.traffic(topic, least=60)
    if draft.chance(40):
        draft.producer(topic, messages=draft.between(20, 60), style="delayed")
    if draft.chance(40):
        # Who comes late sees what is left: what others handled before the lights went out must be there, too.
        draft.member(draft.group(topic), joins_ms=draft.between(6_000, 10_000))


def disk(draft: Draft) -> None:
    """Draw disks that fail or are full for a while; what a failed sync left unsafe, a loss of power may take."""
    draft.brokers(ours=True, sync_flush=draft.chance(50))
    topic = draft.topic()
    group = draft.group(topic)
    draft.members(group, 1, 3)
    at_ms = for_ms = 0
    for _ in range(draft.between(1, 3)):
        kind = draft.one_of((FaultKind.DISK_ERROR, FaultKind.DISK_ERROR, FaultKind.DISK_FULL))
        at_ms, for_ms = draft.between(1_500, 8_000), draft.one_of((50, 500, 2_000))
        draft.fault(kind, draft.one_of(draft.broker_names), at_ms=at_ms, for_ms=for_ms)
    if draft.chance(50):
        kind = draft.one_of((FaultKind.KILL, FaultKind.POWER))
        # Troubles come together: mostly it dies of what is wrong with its disk, or soon after.
        at_ms = draft.one_of((draft.between(3_000, 9_000), at_ms + draft.between(0, for_ms + 300)))
        draft.fault(kind, draft.one_of(draft.broker_names), at_ms=at_ms, for_ms=200)
    draft.traffic(topic, least=60)


def routes(draft: Draft) -> None:
    """Draw topics that grow, and name servers that are away while they do."""
    draft.brokers(ours=draft.chance(75))
    draft.name_servers = draft.between(1, 2)
    topic = draft.topic(queues=draft.between(1, 3))
    group = draft.group(topic)
    draft.members(group, 1, 3)
    queues = 3
    for _ in range(draft.between(1, 3)):
        queues += draft.between(1, 3)
        at_ms = draft.between(2_000, 8_000)
        for broker in draft.broker_names:
            draft.fault(FaultKind.QUEUES, topic, other=broker, at_ms=at_ms + draft.between(0, 500), amount=queues)
    if draft.chance(50):
        draft.fault(FaultKind.KILL, "ns1", at_ms=draft.between(1_500, 8_000), for_ms=draft.between(200, 4_000))
    joins_ms = draft.between(2_000, 8_000)
    draft.member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.between(500, 4_000))
    draft.traffic(topic)
