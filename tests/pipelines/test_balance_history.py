"""From events to who had what when: holdings, hand-overs, gaps, overlaps, and changes against the least possible."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.studies import START_MS, events_of, member_id, queues_of, shift

from steelyard.balance.allocate import Plan, find_strategy, plan
from steelyard.model import Queue
from steelyard.pipelines.report.changes import QUIET_MS
from steelyard.pipelines.report.events import LEAVES, Event
from steelyard.pipelines.report.history import History, Holding, history

_QUEUES = queues_of(6)
_EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 60_000),
        st.sampled_from(["c1", "c2", "c3"]),
        st.sets(st.sampled_from(_QUEUES)).map(lambda some: tuple(sorted(some))),
        st.sampled_from(["c1 came", LEAVES]),
    ),
    max_size=30,
)
_MEMBERS = st.sets(st.sampled_from(["c1", "c2", "c3", "c4", "c5"]), min_size=1).map(sorted)


def told(events: Sequence[Event]) -> History:
    """Return a history that is there."""
    found = history(events, "orders")
    assert found is not None
    return found


def test_events_of_no_queue_tell_no_history() -> None:
    assert history([]) is None
    assert history([Event(1, "c1", ())]) is None
    assert history([Event(1, "c1", (Queue("prices", "broker-a", 0),))], "orders") is None


def test_a_queue_that_is_handed_over_has_a_gap() -> None:
    queue = _QUEUES[0]
    found = told([Event(0, "c1", (queue,)), Event(1_000, "c1", ()), Event(1_250, "c2", (queue,), "c2 came")])
    (over,) = found.hand_overs
    assert (over.before, over.after, over.gap_ms, over.why, over.is_move) == ("c1", "c2", 250, "c2 came", True)
    assert found.holdings[queue][0] == Holding(queue, "c1", 0, 1_000, released=True)
    assert not found.overlaps


def test_a_queue_that_comes_back_has_a_gap_and_does_not_move() -> None:
    queue = _QUEUES[0]
    found = told([Event(0, "c1", (queue,)), Event(1_000, "c1", ()), Event(1_250, "c1", (queue,))])
    assert found.gaps_ms == (250,)
    assert not found.moves


def test_two_owners_at_once_are_an_overlap() -> None:
    queue = _QUEUES[0]
    found = told([Event(0, "c1", (queue,)), Event(1_000, "c2", (queue,)), Event(1_400, "c1", ())])
    (both,) = found.overlaps
    assert (both.before, both.after, both.start_ms, both.span_ms) == ("c1", "c2", 1_000, 400)
    assert found.hand_overs[0].gap_ms == 0


def test_a_member_that_still_claims_a_queue_later_has_it() -> None:
    queue, other = _QUEUES[:2]
    found = told([Event(0, "c1", (queue,)), Event(1_000, "c2", (queue,)), Event(3_000, "c1", (queue, other))])
    (both,) = found.overlaps
    assert both.end_ms == 3_000
    assert not found.silent


def test_a_killed_member_is_silent_and_its_gap_is_not_known() -> None:
    queue = _QUEUES[0]
    found = told([Event(0, "c1", (queue,)), Event(20_000, "c2", (queue,)), Event(40_000, "c3", (queue,))])
    assert found.silent == ("c1", "c2")
    assert [over.gap_ms for over in found.hand_overs] == [None, None]
    assert not found.overlaps
    assert [change.cause for change in found.changes] == [
        "c1 joined",
        "c2 joined, c1 fell silent",
        "c3 joined, c2 fell silent",
    ]


def test_changes_are_held_against_the_least_possible() -> None:
    found = told(events_of(16, 3))
    assert [(change.moves, change.least) for change in found.changes] == [(0, 0), (8, 8), (5, 5), (5, 5)]
    assert found.changes[-1].lost == (member_id(2),)


def test_a_strategy_that_rearranges_moves_more_than_the_least() -> None:
    queues = queues_of(12)
    rule = find_strategy("circle")
    before = plan(rule, "billing", queues, ["c1", "c2"])
    after = plan(rule, "billing", queues, ["c1", "c2", "c3"])
    found = told([*shift({}, before, 0, "start"), *shift(before, after, 60_000, "c3 joined")])
    assert found.changes[-1].least == 4
    assert found.changes[-1].moves == len(found.moves) > 4


def test_a_member_that_leaves_is_gone_and_one_without_queues_is_idle() -> None:
    queue = _QUEUES[0]
    common = [Event(0, "c1", (queue,)), Event(10_000, "c2", (queue,))]
    left = told([*common, Event(9_900, "c1", (), LEAVES)]).changes[-1]
    assert (left.left, left.members) == (("c1",), 1)
    idle = told([*common, Event(9_900, "c1", (), "AVG among 2 members")]).changes[-1]
    assert (idle.left, idle.members, idle.explanation.idle) == ((), 2, ("c1",))


def test_a_queue_in_the_air_between_two_stretches_counts_as_moved() -> None:
    queue = _QUEUES[0]
    late = QUIET_MS + 2_000
    found = told([Event(0, "c1", (queue,)), Event(60_000, "c1", (), LEAVES), Event(60_000 + late, "c2", (queue,))])
    assert (found.changes[-1].moves, found.changes[-1].least) == (1, 1)
    assert found.gaps_ms == (late,)


def test_a_slow_hand_over_is_not_counted_as_too_many_moves() -> None:
    first, *rest = queues = queues_of(4)
    found = told(
        [
            Event(0, "c1", tuple(queues)),
            Event(60_000, "c1", (first, rest[0], rest[1])),
            Event(60_050, "c2", (rest[2],)),
            Event(70_000, "c1", (first, rest[0])),
            Event(70_050, "c2", (rest[1], rest[2])),
        ]
    )
    assert (len(found.moves), found.needed) == (2, 2)


@given(_EVENTS)
def test_whatever_is_told_holdings_of_a_member_never_meet(events: list[Event]) -> None:
    found = history(events, "orders")
    if found is None:
        assert not any(event.queues for event in events)
        return
    for queue, held in found.holdings.items():
        assert [each.taken_ms for each in held] == sorted(each.taken_ms for each in held)
        for each in held:
            assert each.queue == queue
            assert found.start_ms <= each.taken_ms <= each.ended_ms <= found.end_ms
        for member in found.members:
            mine = [each for each in held if each.member == member]
            assert all(one.ended_ms <= then.taken_ms for one, then in pairwise(mine))
    assert all(gap >= 0 for gap in found.gaps_ms)
    assert all(both.span_ms > 0 and both.before != both.after for both in found.overlaps)
    assert len(found.hand_overs) == sum(len(held) - 1 for held in found.holdings.values())
    assert sum(change.moves for change in found.changes) <= len(found.moves)


@given(st.lists(_MEMBERS, min_size=1, max_size=6), st.integers(0, 2_000), st.sampled_from(["sticky", "average"]))
def test_planned_changes_show_their_gap_and_no_overlap(groups: list[list[str]], gap_ms: int, strategy: str) -> None:
    owned: Plan = {}
    events: list[Event] = []
    planned = 0
    for turn, names in enumerate(groups):
        after = plan(find_strategy(strategy), "billing", _QUEUES, names, previous=owned)
        before = {queue: name for name, mine in owned.items() for queue in mine}
        planned += sum(before.get(queue, name) != name for name, mine in after.items() for queue in mine)
        events += shift(owned, after, START_MS + turn * 60_000, "planned", gap_ms=gap_ms)
        owned = after
    found = told(events)
    assert not found.overlaps
    assert not found.silent
    assert len(found.moves) == planned
    assert set(found.gaps_ms) <= {gap_ms}
    assert found.needed <= planned
    if strategy == "sticky":
        assert found.needed == planned


def test_many_members_that_claim_one_queue_take_time_in_proportion() -> None:
    events = [Event(each, f"c{each}", (_QUEUES[0],)) for each in range(20_000)]
    found = told(events)
    assert len(found.holdings[_QUEUES[0]]) == 20_000
