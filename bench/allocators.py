"""Allocation at size: a million queues and ten thousand members, beside the plain way to do the same.

CPU time, the best of a few runs. The plain ways are what one would write first: a walk over all queues for one member,
a heap of members by load for a sticky plan, one question a member for a plan of the ring.
"""

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from time import process_time

from bench.table import Row
from steelyard.balance.assignors import AssignmentPlan, Average, ConsistentHash, Sticky, plan, sticky_plan
from steelyard.model import Queue, sort_names

_QUEUES, _MEMBERS = 1_000_000, 10_000
_BROKERS = 100
_LEAVER = 500
_PEAK_MB = 500


def run() -> list[Row]:
    """Measure everything; takes some twenty seconds."""
    return [*_average(), *_sticky_in_numbers(), _sticky_peak(), *_sticky_by_name(), _whole_ring()]


def _average() -> list[Row]:
    queues, members = _names()
    at = _MEMBERS // 2
    ours = _cpu_s(lambda: Average()("bench", members[at], queues, members))
    beside = _cpu_s(lambda: [queue for j, queue in enumerate(queues) if j * _MEMBERS // _QUEUES == at])
    whole = _cpu_s(lambda: plan(Average(), "bench", queues, members), runs=2)
    one_by_one = _cpu_s(lambda: {m: Average()("bench", m, queues, members) for m in members}, runs=1)
    return [
        _row("AVG, one member of 1M x 10k", ours, "walk over all queues", beside, goal_s=0.05),
        _row("AVG, whole plan 1M x 10k, sorting included", whole, "member by member, unsorted", one_by_one, goal_s=1.0),
    ]


def _sticky_in_numbers() -> list[Row]:
    cut, nobody = [0, _QUEUES], [-1] * _QUEUES
    settled = sticky_plan(cut, _MEMBERS, nobody)
    left = [-1 if m == _LEAVER else m - (m > _LEAVER) for m in settled]
    cases = (
        ("fresh", _MEMBERS, nobody, 0.4),
        ("one leaves", _MEMBERS - 1, left, 0.6),
        ("one joins", _MEMBERS + 1, settled, 0.6),
    )
    rows = []
    for what, members, owner, goal_s in cases:
        ours = _cpu_s(partial(sticky_plan, cut, members, owner))
        beside = _cpu_s(partial(_by_heap, members, owner))
        rows.append(_row(f"sticky 1M x 10k, {what}", ours, "heap of members by load", beside, goal_s=goal_s))
    return rows


def _sticky_peak() -> Row:
    def one_leaves(planner: Callable[[int, list[int]], list[int]]) -> float:
        tracemalloc.start()
        settled = planner(_MEMBERS, [-1] * _QUEUES)
        planner(_MEMBERS - 1, [-1 if m == _LEAVER else m - (m > _LEAVER) for m in settled])
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        return peak

    ours = one_leaves(lambda members, owner: sticky_plan([0, _QUEUES], members, owner))
    beside = one_leaves(_by_heap)
    return Row(
        "sticky 1M x 10k, peak of fresh and one leaves",
        f"{ours:.0f} MB",
        f"heap of members by load: {beside:.0f} MB",
        f"{beside / ours:.1f}x",
        f"≤ {_PEAK_MB} MB",
        ours <= _PEAK_MB,
    )


def _sticky_by_name() -> list[Row]:
    queues, members = _names()
    before = plan(Sticky(), "bench", queues, members)
    fewer = [member for member in members if member != members[_LEAVER]]
    cases: tuple[tuple[str, list[str], AssignmentPlan], ...] = (("fresh", members, {}), ("one leaves", fewer, before))
    rows = []
    for what, those, previous in cases:
        ours = _cpu_s(partial(plan, Sticky(), "bench", queues, those, previous=previous), runs=2)
        beside = _cpu_s(partial(plan, Average(), "bench", queues, those), runs=2)
        rows.append(_row(f"sticky by name 1M x 10k, {what}", ours, "AVG, whole plan", beside, goal_s=1.5))
    return rows


def _whole_ring() -> Row:
    queues, members = _names(queues=20_000, members=200)
    ours = _cpu_s(lambda: plan(ConsistentHash(), "bench", queues, members))
    some = members[:10]
    beside = _cpu_s(lambda: [ConsistentHash()("bench", member, queues, members) for member in some], runs=1) * 20
    return _row(
        "ring 20k x 200, whole plan", ours, "one question a member (10 asked, x 20)", beside, goal_s=beside / 20
    )


def _by_heap(members: int, owner: Sequence[int]) -> list[int]:
    """Plan one topic as one would write it first: keep up to the share, give each other queue to the lightest."""
    base, over = divmod(len(owner), members)
    load, new, pool = [0] * members, list(owner), []
    for queue, member in enumerate(owner):
        if member >= 0 and (load[member] < base or (load[member] == base and over)):
            over -= load[member] == base
            load[member] += 1
        else:
            pool.append(queue)
    lightest = [(units, member) for member, units in enumerate(load)]
    heapify(lightest)
    for queue in pool:
        units, member = heappop(lightest)
        new[queue] = member
        heappush(lightest, (units + 1, member))
    return new


def _names(queues: int = _QUEUES, members: int = _MEMBERS) -> tuple[list[Queue], list[str]]:
    each = queues // _BROKERS
    listed = [Queue("orders", f"broker-{broker:03d}", number) for broker in range(_BROKERS) for number in range(each)]
    return listed, sort_names(f"10.0.{n // 256}.{n % 256}@{n}#{n}" for n in range(members))


def _cpu_s(work: Callable[[], object], runs: int = 3) -> float:
    def once() -> float:
        start = process_time()
        work()
        return process_time() - start

    return min(once() for _ in range(runs))


def _row(what: str, ours_s: float, other: str, beside_s: float, *, goal_s: float) -> Row:
    ratio = f"{beside_s / max(ours_s, 1e-6):,.1f}x"
    return Row(what, _ms(ours_s), f"{other}: {_ms(beside_s)}", ratio, f"≤ {_ms(goal_s)}", ours_s <= goal_s)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2f} ms"
