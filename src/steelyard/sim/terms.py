"""What a history is allowed to do, worked out from its plan: the terms under which checkers judge it."""

from steelyard.sim.checkers.checker import GroupTerms, Terms
from steelyard.sim.plan import FaultKind, Plan

__all__ = ["rest_ms", "terms_of"]

_CUTTING = frozenset(
    {
        FaultKind.CUT,
        FaultKind.ONE_WAY,
        FaultKind.HALF_OPEN,
        FaultKind.STUCK,
        FaultKind.JAM,
        FaultKind.SLOW,
        FaultKind.VANISH,
    }
)

_REST_MS = 60_000
"""How long a healed world may take to come to rest: rounds are 20 s apart at most, a silent member is noticed after
12 s, and a broker of ours that restarts settles for 3 s."""
_RETRIES_MS = 60_000
"""What a message needs that fails twice: it comes again after 10 s, then after 30 s."""
_APACHE_REST_MS = 210_000
"""On Apache's broker a silent member is listed for 130 s, then comes a round; a lock left behind lives 60 s."""


def terms_of(plan: Plan) -> Terms:
    """Return the terms of a history."""
    kinds = {fault.kind for fault in plan.faults}
    works = [member.work for member in plan.members]
    return Terms(
        groups={
            group.name: GroupTerms(
                topics=group.topics,
                mode=group.mode,
                sticky=group.sticky,
                from_first=group.from_first,
                most_tries=group.most_tries,
                drain_ms=group.drain_ms,
            )
            for group in plan.groups
        },
        apache_brokers=frozenset(broker.name for broker in plan.brokers if not broker.is_ours),
        async_brokers=frozenset(broker.name for broker in plan.brokers if not broker.sync_flush),
        java_members=any(not member.is_ours for member in plan.members),
        planned_only=kinds <= {FaultKind.QUEUES},
        power_loss=FaultKind.POWER in kinds,
        clock_faults=FaultKind.CLOCK_JUMP in kinds,
        cuts=bool(kinds & _CUTTING),
        pauses=FaultKind.PAUSE in kinds,
        disk_faults=bool(kinds & {FaultKind.DISK_ERROR, FaultKind.DISK_FULL}),
        # A chunk is handled one message after the other.
        longest_handler_ms=max((max(work.most_ms, work.least_ms + work.slow_ms) for work in works), default=0)
        * max((group.chunk for group in plan.groups), default=1),
        lost_notices=plan.lost_notices_percent > 0,
    )


def rest_ms(plan: Plan) -> int:
    """Return how long a healed world may take until all is handled, committed and owned."""
    patience_ms = _REST_MS if all(broker.is_ours for broker in plan.brokers) else _APACHE_REST_MS
    if any(not member.is_ours for member in plan.members):
        patience_ms = max(patience_ms, _APACHE_REST_MS)
    return patience_ms + (_RETRIES_MS if any(member.work.failing_percent for member in plan.members) else 0)
