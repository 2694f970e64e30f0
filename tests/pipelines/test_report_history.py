"""From events to who had what when: holdings, hand-overs, gaps, overlaps, and changes against the least possible."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.assignors import AssignmentPlan, find_strategy, plan
from steelyard.model import Queue
from steelyard.pipelines.report.ownership import LEAVE_REASON, OwnershipEvent, QueueHolding
from steelyard.pipelines.report.rebalance_history import SETTLED_AFTER_MS, Handover, OwnershipHistory, build_history
from tests.pipelines.report_contents import START_MS, events_of, member_id, queues_of, shift

_QUEUES = queues_of(6)
_EVENTS = st.lists(
    st.builds(
        OwnershipEvent,
        st.integers(0, 60_000),
        st.sampled_from(["c1", "c2", "c3"]),
        st.sets(st.sampled_from(_QUEUES)).map(lambda some: tuple(sorted(some))),
        st.sampled_from(["c1 came", LEAVE_REASON]),
    ),
    max_size=30,
)
_MEMBERS = st.sets(st.sampled_from(["c1", "c2", "c3", "c4", "c5"]), min_size=1).map(sorted)


def told(events: Sequence[OwnershipEvent]) -> OwnershipHistory:
    """Return a history that is there."""
    found = build_history(events, "orders")
    assert found.holdings
    return found


def moves_of(history: OwnershipHistory) -> tuple[Handover, ...]:
    """Return the hand-overs to another member."""
    return tuple(each for each in history.handovers if each.is_move)


def test_events_of_no_queue_tell_no_history() -> None:
    assert build_history([], "orders") == OwnershipHistory()
    assert build_history([OwnershipEvent(1, "c1", ())], "orders") == OwnershipHistory()
    assert build_history([OwnershipEvent(1, "c1", (Queue("prices", "broker-a", 0),))], "orders") == OwnershipHistory()


def test_a_queue_that_is_handed_over_has_a_gap() -> None:
    queue = _QUEUES[0]
    found = told(
        [
            OwnershipEvent(0, "c1", (queue,)),
            OwnershipEvent(1_000, "c1", ()),
            OwnershipEvent(1_250, "c2", (queue,), "c2 came"),
        ]
    )
    (over,) = found.handovers
    assert (over.before.member, over.after.member, over.gap_ms, over.is_move) == ("c1", "c2", 250, True)
    assert over.after.why == "c2 came"
    assert found.holdings[0] == QueueHolding(queue, 0, 1_000, "c1", released=True)
    assert not found.overlaps


def test_a_queue_that_comes_back_has_a_gap_and_does_not_move() -> None:
    queue = _QUEUES[0]
    found = told(
        [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(1_000, "c1", ()), OwnershipEvent(1_250, "c1", (queue,))]
    )
    assert found.gaps_ms == (250,)
    assert not moves_of(found)


def test_two_owners_at_once_are_an_overlap() -> None:
    queue = _QUEUES[0]
    found = told(
        [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(1_000, "c2", (queue,)), OwnershipEvent(1_400, "c1", ())]
    )
    (both,) = found.overlaps
    assert (both.before.member, both.after.member, both.after.acquired_ms, both.span_ms) == ("c1", "c2", 1_000, 400)
    assert found.handovers[0].gap_ms == 0


def test_a_member_that_still_claims_a_queue_later_has_it() -> None:
    queue, other = _QUEUES[:2]
    found = told(
        [
            OwnershipEvent(0, "c1", (queue,)),
            OwnershipEvent(1_000, "c2", (queue,)),
            OwnershipEvent(3_000, "c1", (queue, other)),
        ]
    )
    (both,) = found.overlaps
    assert both.after.acquired_ms + both.span_ms == 3_000
    assert not any(change.lost for change in found.changes)


def test_a_killed_member_is_silent_and_its_gap_is_not_known() -> None:
    queue = _QUEUES[0]
    found = told(
        [
            OwnershipEvent(0, "c1", (queue,)),
            OwnershipEvent(20_000, "c2", (queue,)),
            OwnershipEvent(40_000, "c3", (queue,)),
        ]
    )
    assert [change.lost for change in found.changes if change.lost] == [("c1",), ("c2",)]
    assert [over.gap_ms for over in found.handovers] == [None, None]
    assert not found.overlaps
    assert [change.cause for change in found.changes] == [
        "c1 joined",
        "c2 joined, c1 became silent",
        "c3 joined, c2 became silent",
    ]


def test_changes_are_held_against_the_least_possible() -> None:
    found = told(events_of(16, 3))
    assert [(len(change.moves), change.minimum_moves) for change in found.changes] == [(0, 0), (8, 8), (5, 5), (5, 5)]
    assert found.changes[-1].lost == (member_id(2),)


def test_a_strategy_that_rearranges_moves_more_than_the_least() -> None:
    queues = queues_of(12)
    rule = find_strategy("circle")
    before = plan(rule, "billing", queues, ["c1", "c2"])
    after = plan(rule, "billing", queues, ["c1", "c2", "c3"])
    found = told([*shift({}, before, 0, "start"), *shift(before, after, 60_000, "c3 joined")])
    assert found.changes[-1].minimum_moves == 4
    assert found.changes[-1].moves == moves_of(found)
    assert len(moves_of(found)) > 4


def test_a_member_that_leaves_is_gone_and_one_without_queues_is_idle() -> None:
    queue = _QUEUES[0]
    common = [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(10_000, "c2", (queue,))]
    left = told([*common, OwnershipEvent(9_900, "c1", (), LEAVE_REASON)]).changes[-1]
    assert (left.left, left.members) == (("c1",), 1)
    idle = told([*common, OwnershipEvent(9_900, "c1", (), "AVG among 2 members")]).changes[-1]
    assert (idle.left, idle.members, idle.explanation.idle) == ((), 2, ("c1",))


def test_a_queue_in_the_air_between_two_stretches_counts_as_moved() -> None:
    queue = _QUEUES[0]
    late = SETTLED_AFTER_MS + 2_000
    found = told(
        [
            OwnershipEvent(0, "c1", (queue,)),
            OwnershipEvent(60_000, "c1", (), LEAVE_REASON),
            OwnershipEvent(60_000 + late, "c2", (queue,)),
        ]
    )
    assert (len(found.changes[-1].moves), found.changes[-1].minimum_moves) == (1, 1)
    assert found.gaps_ms == (late,)


def test_a_slow_hand_over_is_not_counted_as_too_many_moves() -> None:
    first, *rest = queues = queues_of(4)
    found = told(
        [
            OwnershipEvent(0, "c1", tuple(queues)),
            OwnershipEvent(60_000, "c1", (first, rest[0], rest[1])),
            OwnershipEvent(60_050, "c2", (rest[2],)),
            OwnershipEvent(70_000, "c1", (first, rest[0])),
            OwnershipEvent(70_050, "c2", (rest[1], rest[2])),
        ]
    )
    assert (len(moves_of(found)), found.necessary_moves) == (2, 2)


@given(_EVENTS)
def test_whatever_is_told_holdings_of_a_member_never_meet(events: list[OwnershipEvent]) -> None:
    found = build_history(events, "orders")
    if not found.holdings:
        assert not any(event.queues for event in events)
        return
    times = [event.at_ms for event in events]
    by_queue = {each.queue: [held for held in found.holdings if held.queue == each.queue] for each in found.holdings}
    for held in by_queue.values():
        assert [each.acquired_ms for each in held] == sorted(each.acquired_ms for each in held)
        for each in held:
            assert min(times) <= each.acquired_ms <= each.ended_ms <= max(times)
        for member in found.members:
            mine = [each for each in held if each.member == member]
            assert all(one.ended_ms <= then.acquired_ms for one, then in pairwise(mine))
    assert all(gap >= 0 for gap in found.gaps_ms)
    assert all(both.span_ms > 0 and both.before.member != both.after.member for both in found.overlaps)
    assert len(found.handovers) == sum(len(held) - 1 for held in by_queue.values())
    assert sum(len(change.moves) for change in found.changes) <= len(moves_of(found))


@given(st.lists(_MEMBERS, min_size=1, max_size=6), st.integers(0, 2_000), st.sampled_from(["sticky", "average"]))
def test_planned_changes_show_their_gap_and_no_overlap(groups: list[list[str]], gap_ms: int, strategy: str) -> None:
    owned: AssignmentPlan = {}
    events: list[OwnershipEvent] = []
    planned = 0
    for turn, names in enumerate(groups):
        after = plan(find_strategy(strategy), "billing", _QUEUES, names, previous=owned)
        before = {queue: name for name, mine in owned.items() for queue in mine}
        planned += sum(before.get(queue, name) != name for name, mine in after.items() for queue in mine)
        events += shift(owned, after, START_MS + turn * 60_000, "planned", gap_ms=gap_ms)
        owned = after
    found = told(events)
    assert not found.overlaps
    assert not any(change.lost for change in found.changes)
    assert len(moves_of(found)) == planned
    assert set(found.gaps_ms) <= {gap_ms}
    assert found.necessary_moves <= planned
    if strategy == "sticky":
        assert found.necessary_moves == planned


def test_many_members_that_claim_one_queue_take_time_in_proportion() -> None:
    events = [OwnershipEvent(each, f"c{each}", (_QUEUES[0],)) for each in range(20_000)]
    found = told(events)
    assert len(found.holdings) == 20_000
