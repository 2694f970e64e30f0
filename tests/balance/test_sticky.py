"""The sticky plan is even, moves the least there is, and is the same for every member."""

from collections import Counter
from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.balance.assignors import Sticky, minimum_moves, plan, sticky_plan, topic_bounds
from steelyard.balance.assignors.minimum_moves import MAX_FLOW_CELLS
from steelyard.balance.assignors.sticky_shares import MAX_EXACT_CELLS
from steelyard.errors import ConfigurationError
from tests.balance.evenness import even, even_in_topics, groups, least_by_trying_everything, moves, queues_of, spread

Group = tuple[list[int], int, list[int]]


@st.composite
def _small_groups(draw: st.DrawFn) -> Group:
    """Draw a group that is small enough to try every plan there is."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) <= 7))
    members = draw(st.integers(1, 4 if sum(sizes) <= 5 else 3))
    owner = draw(st.lists(st.integers(-1, members), min_size=sum(sizes), max_size=sum(sizes)))
    return list(accumulate(sizes, initial=0)), members, owner


@settings(max_examples=300)
@given(_small_groups())
def test_no_even_plan_moves_fewer_queues(group: Group) -> None:
    cut, members, owner = group
    planned = sticky_plan(cut, members, owner)
    least = least_by_trying_everything(cut, members, owner)
    assert even(cut, members, planned)
    assert moves(owner, planned) == least
    assert minimum_moves(cut, members, owner) == least


@settings(max_examples=300)
@given(groups(topics=6, queues=80))
def test_movement_is_the_least_that_the_flow_allows(group: Group) -> None:
    cut, members, owner = group
    planned = sticky_plan(cut, members, owner)
    assert even(cut, members, planned)
    assert moves(owner, planned) == minimum_moves(cut, members, owner)


@given(groups(topics=6, queues=80))
def test_a_carried_out_plan_is_planned_again(group: Group) -> None:
    cut, members, owner = group
    planned = sticky_plan(cut, members, owner)
    assert sticky_plan(cut, members, planned) == planned


@given(groups(topics=1), st.data())
def test_a_plan_of_one_topic_stays_the_same_while_it_is_carried_out(group: Group, data: st.DataObject) -> None:
    cut, members, owner = group
    planned = sticky_plan(cut, members, owner)
    half_way = [
        old if old == new else data.draw(st.sampled_from([old, -1, new]))
        for old, new in zip(owner, planned, strict=True)
    ]
    assert sticky_plan(cut, members, half_way) == planned


@given(groups(topics=4), st.data())
def test_a_plan_of_several_topics_never_gets_dearer_while_it_is_carried_out(group: Group, data: st.DataObject) -> None:
    cut, members, owner = group
    planned = sticky_plan(cut, members, owner)
    half_way = [
        old if old == new else data.draw(st.sampled_from([old, new])) for old, new in zip(owner, planned, strict=True)
    ]
    assert moves(half_way, sticky_plan(cut, members, half_way)) == moves(half_way, planned)


@given(groups(topics=3), st.integers(0, 8))
def test_a_leave_moves_the_leavers_queues_alone_and_a_join_fills_the_joiner_alone(group: Group, leaver: int) -> None:
    cut, members, owner = group
    before = sticky_plan(cut, members, owner)
    more = sticky_plan(cut, members + 1, before)
    assert all(new in (old, members) for old, new in zip(before, more, strict=True) if len(cut) == 2)
    if members > 1:
        leaver %= members
        left = [-1 if member == leaver else member - (member > leaver) for member in before]
        fewer = sticky_plan(cut, members - 1, left)
        assert all(old in (-1, new) for old, new in zip(left, fewer, strict=True) if len(cut) == 2)
        assert even(cut, members - 1, fewer)


@given(groups(topics=4), st.data())
def test_unequal_subscriptions_are_even_in_each_topic(group: Group, data: st.DataObject) -> None:
    cut, members, owner = group
    subs = [sorted(data.draw(st.sets(st.integers(0, members - 1)))) for _ in cut[1:]]
    planned = sticky_plan(cut, members, owner, subs)
    assert even_in_topics(cut, subs, planned)
    assert sticky_plan(cut, members, planned, subs) == planned
    assert minimum_moves(cut, members, owner, subs) <= moves(owner, planned)


@given(groups(topics=1), st.data())
def test_unequal_subscriptions_move_the_least_where_there_is_one_topic(group: Group, data: st.DataObject) -> None:
    cut, members, owner = group
    subs = [sorted(data.draw(st.sets(st.integers(0, members - 1), min_size=1)))]
    assert moves(owner, sticky_plan(cut, members, owner, subs)) == minimum_moves(cut, members, owner, subs)


@given(groups(topics=6, queues=80))
def test_equal_subscriptions_that_are_spelled_out_are_even_over_all_too(group: Group) -> None:
    cut, members, owner = group
    assert even(cut, members, sticky_plan(cut, members, owner, [range(members)] * (len(cut) - 1)))


@pytest.mark.parametrize(("topics", "members"), [(90, 300), (30, MAX_EXACT_CELLS // 30 + 1), (400, 600)])
def test_a_group_too_large_to_be_exact_is_even_and_a_fixpoint(topics: int, members: int) -> None:
    assert topics * members > MAX_EXACT_CELLS
    size = members // 3 + 1
    cut = list(range(0, topics * size + 1, size))
    # As average would have it: the first members own a queue of every topic, the others nothing at all.
    owner = [queue % size for queue in range(topics * size)]
    planned = sticky_plan(cut, members, owner)
    assert even(cut, members, planned)
    assert sticky_plan(cut, members, planned) == planned
    assert minimum_moves(cut, members, owner) <= moves(owner, planned)
    if topics * members > MAX_FLOW_CELLS:
        # Too large for the flow too: each topic by itself could stay as it is.
        assert minimum_moves(cut, members, owner) == 0


def test_the_least_of_a_large_group_is_found_before_the_suite_loses_patience() -> None:
    topics, members, size = 190, 1000, 500
    assert topics * members <= MAX_FLOW_CELLS
    # A tenth of the members has everything: nearly all extras must move, along many ways of the same price.
    owner = [queue * queue // 7 % (members // 10) for queue in range(topics * size)]
    cut = list(range(0, topics * size + 1, size))
    assert minimum_moves(cut, members, owner) == moves(owner, sticky_plan(cut, members, owner))


def test_an_extra_is_exchanged_where_the_first_choice_was_one_move_too_dear() -> None:
    cut, owner = [0, 4, 5], [0, 0, 2, 2, 0]
    planned = sticky_plan(cut, 3, owner)
    assert even(cut, 3, planned)
    assert moves(owner, planned) == least_by_trying_everything(cut, 3, owner) == 1


def test_the_least_is_known_for_one_topic_by_formula() -> None:
    assert minimum_moves([0, 16], 2, [0] * 16) == 8
    assert minimum_moves([0, 16], 3, [0] * 8 + [1] * 8) == 5
    assert minimum_moves([0, 16], 2, [0] * 6 + [1] * 5 + [2] * 5) == 5
    assert minimum_moves([0, 16], 3, [-1] * 16) == 0
    assert minimum_moves([0, 3], 0, [0, 0, -1]) == 2


def test_one_then_two_then_three_members() -> None:
    queues = queues_of(16)
    one = plan(Sticky(), "billing", queues, ["c1"])
    two = plan(Sticky(), "billing", queues, ["c1", "c2"], previous=one)
    three = plan(Sticky(), "billing", queues, ["c1", "c2", "c3"], previous=two)
    assert [len(mine) for mine in two.values()] == [8, 8]
    assert [len(mine) for mine in three.values()] == [6, 5, 5]
    assert set(three["c1"]) < set(two["c1"])
    assert set(three["c2"]) < set(two["c2"])


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), joined=st.integers(1, 5), left=st.integers(0, 3))
def test_names_and_numbers_give_the_same_plan(sizes: list[int], joined: int, left: int) -> None:
    queues = queues_of(*sizes)
    old = [f"c{number}" for number in range(4)]
    before = plan(Sticky(), "billing", queues, old)
    members = old[left:] + [f"d{number}" for number in range(joined)]
    after = plan(Sticky(), "billing", queues, members, previous=before)
    owner_of = {queue: members.index(member) for member in old[left:] for queue in before[member]}
    owner_now = {queue: members.index(member) for member, mine in after.items() for queue in mine}
    numbers = sticky_plan(topic_bounds(queues)[1], len(members), [owner_of.get(queue, -1) for queue in queues])
    assert [owner_now[queue] for queue in queues] == numbers
    assert {member: Sticky(before)("billing", member, queues, members) for member in members} == after


@given(st.data(), st.randoms(use_true_random=False))
def test_owners_in_any_order_give_the_same_plan(data: st.DataObject, chance: Random) -> None:
    queues, members = queues_of(7, 3, 5), ["c1", "c2", "c3"]
    # Some queues are claimed by several, some by members that have left.
    claimed = st.lists(st.sampled_from(queues), max_size=8)
    before = {member: data.draw(claimed) for member in [*members, "gone", "too"]}
    planned = plan(Sticky(), "billing", queues, members, previous=before)
    names = list(before)
    chance.shuffle(names)
    for had in before.values():
        chance.shuffle(had)
    again = plan(Sticky(), "billing", queues, members, previous={name: before[name] for name in names})
    assert again == planned


def test_members_get_only_topics_they_subscribe_to() -> None:
    queues = queues_of(4, 4)
    strategy = Sticky(topics={"c1": ["t0"], "c2": {"t0", "t1"}})
    shared = plan(strategy, "billing", queues, ["c1", "c2", "c3"])
    assert {queue.topic for queue in shared["c1"]} == {"t0"}
    assert spread(len(mine) for mine in shared.values()) <= 1
    nobody = plan(Sticky(topics={"c1": ["t0"]}), "billing", queues, ["c1"])
    assert nobody == {"c1": queues[:4]}


def test_a_queue_claimed_by_two_counts_for_the_first_and_an_id_listed_twice_counts_once() -> None:
    queues = queues_of(2)
    before = {"c1": queues[:1], "c2": queues, "gone": queues}
    shared = plan(Sticky(), "billing", queues, ["c2", "c1", "c1"], previous=before)
    assert shared == {"c1": queues[:1], "c2": queues[1:]}


def test_wishes_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="exclude"):
        Sticky(weights={"c1": 2}, topics={"c1": ["t0"]})
    with pytest.raises(ConfigurationError, match="budget is -1"):
        Sticky(budget=-1)
    with pytest.raises(ConfigurationError, match="t0@broker-a:0 is -5"):
        Sticky(lags={queues_of(1)[0]: -5})


def test_topics_are_cut_where_they_begin() -> None:
    topics, cut = topic_bounds(queues_of(3, 0, 2))
    assert (topics, cut) == (["t0", "t2"], [0, 3, 5])
    assert [end - start for start, end in pairwise(cut)] == list(Counter(q.topic for q in queues_of(3, 0, 2)).values())
