"""An explanation counts what moved, says why, and holds it against the least possible."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.assignors import (
    AssignmentPlan,
    Average,
    AverageByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    Sticky,
    Strategy,
    plan,
)
from steelyard.balance.assignors.explain import ChangeReason, describe_change, describe_plan, explain
from steelyard.model import Queue
from tests.balance.evenness import queues_of

_ANY: tuple[Strategy, ...] = (
    Average(),
    AverageByCircle(),
    ConsistentHash(),
    Sticky(),
    MachineRoom(frozenset({"broker"})),
)


def _reasons(previous: AssignmentPlan, planned: AssignmentPlan, queues: list[Queue] | None = None) -> list[str]:
    return [describe_change(change) for change in explain(previous, planned, queues).changes]


def test_a_member_that_joins_gets_what_others_have_too_many() -> None:
    queues = queues_of(4)
    before = plan(Sticky(), "billing", queues, ["c1"])
    reported = explain(before, plan(Sticky(), "billing", queues, ["c1", "c2"], previous=before))
    assert (reported.moved, reported.least, reported.most, reported.fewest) == (2, 2, 2, 2)
    assert [describe_change(change) for change in reported.changes] == [
        "t0@broker-a:0 stays with c1",
        "t0@broker-a:1 stays with c1",
        "t0@broker-a:2 goes from c1 to c2: c1 had 2 more than its share",
        "t0@broker-a:3 goes from c1 to c2: c1 had one more than its share",
    ]


def test_a_member_that_leaves_is_the_reason() -> None:
    queues = queues_of(2)
    assert _reasons({"c1": queues[:1], "c2": queues[1:]}, {"c1": queues}) == [
        "t0@broker-a:0 stays with c1",
        "t0@broker-a:1 goes from c2 to c1: c2 left",
    ]


def test_a_queue_without_an_owner_is_handed_out_and_does_not_count_as_moved() -> None:
    queues = queues_of(2)
    reported = explain({"c1": queues[:1]}, {"c1": queues[:1], "c2": queues[1:]})
    assert (reported.moved, reported.least, reported.count(ChangeReason.NEW_QUEUE)) == (0, 0, 1)
    assert describe_change(reported.changes[1]) == "t0@broker-a:1 goes to c2: it had no owner"


def test_queues_that_change_places_for_nothing_are_said_to() -> None:
    queues = queues_of(2)
    reported = explain({"c1": queues[:1], "c2": queues[1:]}, {"c1": queues[1:], "c2": queues[:1]})
    assert (reported.moved, reported.least) == (2, 0)
    assert [change.why for change in reported.changes] == [ChangeReason.REARRANGED, ChangeReason.SURPLUS]


def test_a_member_with_room_is_the_reason_where_the_owner_had_no_surplus() -> None:
    queues = queues_of(3)
    before = {"c1": queues[:1], "gone": queues[1:]}
    reported = explain(before, {"c1": queues[1:2], "c2": [queues[0], queues[2]]})
    assert describe_change(reported.changes[0]) == "t0@broker-a:0 goes from c1 to c2: c2 had room for 2 more"


def test_what_a_plan_leaves_out_gives_twice_or_lost_is_reported() -> None:
    queues = [*queues_of(2), Queue("t0", "broker-b", 0)]
    gone = Queue("t0", "broker-c", 0)
    fixed = plan(ByConfig(queues[:1]), "billing", queues, ["c1", "c2"])
    lines = describe_plan(explain({"c1": [queues[1], gone]}, fixed | {"c3": []}, queues))
    assert lines == [
        "0 of 3 queues move, and 0 is the least possible; a member has 0 to 1 queue",
        "t0@broker-a:0 goes to c1: it had no owner",
        "t0@broker-a:1 gets no owner after c1: the plan leaves it out",
        "t0@broker-b:0 gets no owner: the plan leaves it out",
        "t0@broker-a:0 is given to c1 and c2: each would handle its messages",
        "c3 gets nothing",
        "t0@broker-c:0 does not exist any more",
    ]


def test_nothing_to_explain_is_explained() -> None:
    assert describe_plan(explain({}, {})) == ["0 of 0 queues move, and 0 is the least possible; a member has 0 queues"]


@pytest.mark.parametrize("strategy", _ANY, ids=lambda strategy: strategy.name)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    old=st.sets(st.sampled_from("abcdef"), min_size=1),
    new=st.sets(st.sampled_from("abcdef"), min_size=1),
)
def test_every_queue_is_explained_and_counts_add_up(
    strategy: Strategy, sizes: list[int], old: set[str], new: set[str]
) -> None:
    queues = queues_of(*sizes)
    before = plan(strategy, "billing", queues, old)
    after = plan(strategy, "billing", queues, new, previous=before)
    reported = explain(before, after, queues)
    owner_before = {queue: member for member, mine in before.items() for queue in mine}
    owner_after = {queue: member for member, mine in after.items() for queue in mine}
    assert [(change.queue, change.before, change.now) for change in reported.changes] == [
        (queue, owner_before.get(queue), owner_after.get(queue)) for queue in queues
    ]
    assert reported.moved == sum(owner_before[q] != owner_after[q] for q in owner_before.keys() & owner_after.keys())
    assert sum(Counter(change.why for change in reported.changes).values()) == len(queues)
    assert all(
        describe_change(change) in describe_plan(reported)
        for change in reported.changes
        if change.why is not ChangeReason.KEPT
    )
    if isinstance(strategy, Sticky):
        assert reported.moved == reported.least
        assert reported.most - reported.fewest <= 1
        assert reported.count(ChangeReason.REARRANGED) == reported.count(ChangeReason.ROOM) == 0
