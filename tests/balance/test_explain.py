"""An explanation counts what moved, says why, and holds it against the least possible."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.balance.even import queues_of

from steelyard.balance.allocate import Average, ByConfig, Circle, MachineRoom, Plan, Ring, Sticky, Strategy, plan
from steelyard.balance.explain import Why, explain, in_words, tell
from steelyard.model import Queue

_ANY: tuple[Strategy, ...] = (Average(), Circle(), Ring(), Sticky(), MachineRoom(frozenset({"broker"})))


def _reasons(previous: Plan, planned: Plan, queues: list[Queue] | None = None) -> list[str]:
    return [in_words(change) for change in explain(previous, planned, queues).changes]


def test_a_member_that_joins_gets_what_others_have_too_many() -> None:
    queues = queues_of(4)
    before = plan(Sticky(), "billing", queues, ["c1"])
    told = explain(before, plan(Sticky(), "billing", queues, ["c1", "c2"], previous=before))
    assert (told.moved, told.least, told.most, told.fewest) == (2, 2, 2, 2)
    assert [in_words(change) for change in told.changes] == [
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


def test_a_queue_that_nobody_had_is_handed_out_and_does_not_count_as_moved() -> None:
    queues = queues_of(2)
    told = explain({"c1": queues[:1]}, {"c1": queues[:1], "c2": queues[1:]})
    assert (told.moved, told.least, told.count(Why.NEW_QUEUE)) == (0, 0, 1)
    assert in_words(told.changes[1]) == "t0@broker-a:1 goes to c2: nobody had it before"


def test_queues_that_change_places_for_nothing_are_said_to() -> None:
    queues = queues_of(2)
    told = explain({"c1": queues[:1], "c2": queues[1:]}, {"c1": queues[1:], "c2": queues[:1]})
    assert (told.moved, told.least) == (2, 0)
    assert [change.why for change in told.changes] == [Why.REARRANGED, Why.SURPLUS]


def test_a_member_with_room_is_the_reason_where_the_owner_had_no_surplus() -> None:
    queues = queues_of(3)
    before = {"c1": queues[:1], "gone": queues[1:]}
    told = explain(before, {"c1": queues[1:2], "c2": [queues[0], queues[2]]})
    assert in_words(told.changes[0]) == "t0@broker-a:0 goes from c1 to c2: c2 had room for 2 more"


def test_what_a_plan_leaves_out_gives_twice_or_lost_is_told() -> None:
    queues = [*queues_of(2), Queue("t0", "broker-b", 0)]
    gone = Queue("t0", "broker-c", 0)
    fixed = plan(ByConfig(queues[:1]), "billing", queues, ["c1", "c2"])
    lines = tell(explain({"c1": [queues[1], gone]}, fixed | {"c3": []}, queues))
    assert lines == [
        "0 of 3 queues move, and 0 is the least possible; a member has 0 to 1 queue",
        "t0@broker-a:0 goes to c1: nobody had it before",
        "t0@broker-a:1 goes from c1 to nobody: the plan leaves it out",
        "t0@broker-b:0 goes to nobody: the plan leaves it out",
        "t0@broker-a:0 is given to c1 and c2: each would handle its messages",
        "c3 gets nothing",
        "t0@broker-c:0 is not there any more",
    ]


def test_nothing_to_explain_is_explained() -> None:
    assert tell(explain({}, {})) == ["0 of 0 queues move, and 0 is the least possible; a member has 0 queues"]


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
    told = explain(before, after, queues)
    owner_before = {queue: member for member, mine in before.items() for queue in mine}
    owner_after = {queue: member for member, mine in after.items() for queue in mine}
    assert [(change.queue, change.before, change.now) for change in told.changes] == [
        (queue, owner_before.get(queue), owner_after.get(queue)) for queue in queues
    ]
    assert told.moved == sum(owner_before[q] != owner_after[q] for q in owner_before.keys() & owner_after.keys())
    assert sum(Counter(change.why for change in told.changes).values()) == len(queues)
    assert all(in_words(change) in tell(told) for change in told.changes if change.why is not Why.KEPT)
    if isinstance(strategy, Sticky):
        assert told.moved == told.least
        assert told.most - told.fewest <= 1
        assert told.count(Why.REARRANGED) == told.count(Why.ROOM) == 0
