"""Weighted shares follow the weights; lags are evened out within a budget and never at the cost of even counts."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import ceil, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.balance.assignors import Sticky, plan, sticky_plan
from steelyard.balance.assignors.lag_balance import balance_lag
from steelyard.balance.assignors.sticky_shares import (
    MAX_EXACT_CELLS,
    assign_by_shares,
    integer_weights,
    weighted_shares,
)
from steelyard.errors import ConfigurationError
from tests.balance.evenness import even, groups, moves, queues_of

Group = tuple[list[int], int, list[int]]
Weighted = tuple[list[int], list[int], list[int]]


@st.composite
def _weighted_groups(draw: st.DrawFn, *, small: bool = False) -> Weighted:
    """Draw topics, weights and owners; an owner may be none (-1)."""
    weights = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3 if small else 8).filter(any))
    size, topics = (4, 3) if small else (30, 8)
    sizes = draw(
        st.lists(st.integers(0, size), min_size=1, max_size=topics).filter(lambda sizes: sum(sizes) <= 7 or not small)
    )
    owner = draw(st.lists(st.integers(-1, len(weights) - 1), min_size=sum(sizes), max_size=sum(sizes)))
    return list(accumulate(sizes, initial=0)), weights, owner


def _is_weighted(cut: Sequence[int], weights: Sequence[int], plan: Sequence[int]) -> bool:
    """Say whether each member has its exact share of each topic and over all, rounded down or up."""
    for start, end in [*pairwise(cut), (0, cut[-1])]:
        counts = Counter(plan[start:end])
        for member, weight in enumerate(weights):
            exact = Fraction(weight * (end - start), sum(weights))
            if not floor(exact) <= counts[member] <= ceil(exact):
                return False
        if counts[-1]:
            return False
    return True


def _weighted(cut: Sequence[int], weights: Sequence[int], owner: Sequence[int]) -> list[int]:
    return assign_by_shares(cut, owner, weighted_shares(cut, weights, owner))


@settings(max_examples=500)
@given(_weighted_groups())
def test_a_weighted_share_is_the_exact_one_rounded_down_or_up_in_each_topic_and_over_all(group: Weighted) -> None:
    assert _is_weighted(group[0], group[1], _weighted(*group))


def test_a_whole_share_is_never_rounded_up() -> None:
    assert list(weighted_shares([0, 3, 5], [1, 1, 2], [-1] * 5))[1] in ([1, 0, 1], [0, 1, 1])


@settings(max_examples=300)
@given(_weighted_groups(small=True))
def test_no_plan_by_weight_moves_fewer_queues(group: Weighted) -> None:
    cut, weights, owner = group
    plans = product(range(len(weights)), repeat=len(owner))
    least = min(moves(owner, plan) for plan in plans if _is_weighted(cut, weights, plan))
    assert moves(owner, _weighted(cut, weights, owner)) == least


@given(_weighted_groups())
def test_a_carried_out_plan_by_weight_is_planned_again(group: Weighted) -> None:
    cut, weights, owner = group
    planned = _weighted(cut, weights, owner)
    assert _weighted(cut, weights, planned) == planned


@given(_weighted_groups(), st.data())
def test_a_plan_by_weight_of_one_topic_stays_the_same_while_it_is_carried_out(
    group: Weighted, data: st.DataObject
) -> None:
    cut, weights, owner = [0, group[0][1]], group[1], group[2][: group[0][1]]
    planned = _weighted(cut, weights, owner)
    half_way = [
        old if old == new else data.draw(st.sampled_from([old, -1, new]))
        for old, new in zip(owner, planned, strict=True)
    ]
    assert _weighted(cut, weights, half_way) == planned


@given(groups(topics=6, queues=80), st.integers(1, 3))
def test_equal_weights_are_even_and_move_no_more_than_even_shares(group: Group, weight: int) -> None:
    cut, members, owner = group
    owner = [member if member < members else -1 for member in owner]
    planned = _weighted(cut, [weight] * members, owner)
    assert even(cut, members, planned)
    assert moves(owner, planned) == moves(owner, sticky_plan(cut, members, owner))


def test_a_large_group_by_weight_is_within_its_bounds_and_a_fixpoint() -> None:
    topics, members, size = 60, 400, 150
    assert topics * members > MAX_EXACT_CELLS
    cut = list(range(0, topics * size + 1, size))
    weights = [1 + member % 5 for member in range(members)]
    # As average would have it: the first members own a queue of every topic, the others nothing at all.
    owner = [queue % size for queue in range(topics * size)]
    planned = _weighted(cut, weights, owner)
    assert _is_weighted(cut, weights, planned)
    assert _weighted(cut, weights, planned) == planned


def test_a_hundred_topics_of_one_queue_are_shared_by_weight() -> None:
    shares = list(weighted_shares(list(range(101)), [2, 1, 1], [0] * 100))
    assert [sum(column) for column in zip(*shares, strict=True)] == [50, 25, 25]


def test_a_member_twice_as_heavy_gets_twice_as_many_and_keeps_them() -> None:
    queues, members = queues_of(12), ["big", "small-1", "small-2"]
    strategy = Sticky(weights={"big": 2})
    first = plan(strategy, "billing", queues, members)
    assert [len(mine) for mine in first.values()] == [6, 3, 3]
    assert plan(strategy, "billing", queues, members, previous=first) == first
    without = plan(strategy, "billing", queues, members[:2], previous=first)
    assert set(first["big"]) <= set(without["big"])
    assert set(first["small-1"]) <= set(without["small-1"])
    assert [len(mine) for mine in without.values()] == [8, 4]


def test_weights_may_be_fractions_and_must_be_numbers_above_zero_somewhere() -> None:
    assert integer_weights({"a": 0.5, "b": 1.5}, ["a", "b", "c"]) == [1, 3, 2]
    for weights in ({"a": -1.0}, {"a": float("nan")}, {"a": float("inf")}, {"a": 0.0, "b": 0.0}):
        with pytest.raises(ConfigurationError):
            integer_weights(weights, list(weights))


def _behind(members: int, lag: list[int], owner: list[int]) -> list[int]:
    totals: Counter[int] = Counter()
    for messages, member in zip(lag, owner, strict=True):
        totals[member] += messages
    return [totals[member] for member in range(members)]


@given(groups(topics=3), st.data(), st.integers(0, 6), st.booleans())
def test_lags_are_evened_out_within_the_budget(group: Group, data: st.DataObject, budget: int, fixed: bool) -> None:
    cut, members, owner = group
    owner = [member if member < members else -1 for member in owner]
    lag = data.draw(st.lists(st.integers(0, 100), min_size=len(owner), max_size=len(owner)))
    planned = sticky_plan(cut, members, owner)
    evened = balance_lag(cut, members, owner, planned, lag, budget=budget, fixed_counts=fixed)
    assert even(cut, members, evened)
    assert moves(owner, evened) <= moves(owner, planned) + budget
    assert max(_behind(members, lag, evened)) <= max(_behind(members, lag, planned))
    if fixed:
        assert Counter(evened) == Counter(planned)


def test_two_queues_change_places_to_share_the_lag() -> None:
    queues = queues_of(4)
    before = {"c1": queues[:2], "c2": queues[2:]}
    lags = {queues[0]: 500, queues[1]: 400}

    def behind(budget: int) -> list[int]:
        shared = plan(Sticky(lags=lags, budget=budget), "billing", queues, list(before), previous=before)
        return [sum(lags.get(queue, 0) for queue in mine) for mine in shared.values()]

    assert behind(0) == behind(1) == [900, 0]
    assert sorted(behind(2)) == [400, 500]


def test_a_queue_that_moves_anyway_is_chosen_by_lag_for_free() -> None:
    queues = queues_of(4)
    lags = {queues[0]: 500, queues[1]: 400}
    shared = plan(Sticky(lags=lags), "billing", queues, ["c1", "c2"], previous={"c1": queues})
    assert sum(queue in shared["c2"] for queue in queues[:2]) == 1


def test_weights_stay_as_they_are_while_lags_are_evened_out() -> None:
    queues = queues_of(9)
    lags = {queue: 10 * queue.queue_id for queue in queues}
    shared = plan(Sticky(weights={"c1": 2}, lags=lags, budget=9), "billing", queues, ["c1", "c2"])
    assert [len(mine) for mine in shared.values()] == [6, 3]
