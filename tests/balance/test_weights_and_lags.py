"""Weighted shares follow the weights; lags are evened out within a budget and never at the cost of even counts."""

from collections import Counter
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.balance.even import even, groups, moves, queues_of, spread

from steelyard.balance.allocate import Sticky, plan, sticky
from steelyard.balance.allocate.lags import even_out
from steelyard.balance.allocate.weights import weighted_shares, whole_weights
from steelyard.errors import ConfigurationError

Group = tuple[list[int], int, list[int]]
_weights = st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any)
_sizes = st.lists(st.integers(0, 30), min_size=1, max_size=8)


@given(_weights, _sizes)
def test_a_weighted_share_is_the_exact_one_rounded_down_or_up(weights: list[int], sizes: list[int]) -> None:
    cut = list(accumulate(sizes, initial=0))
    for (start, end), share in zip(pairwise(cut), weighted_shares(cut, weights), strict=True):
        assert sum(share) == end - start
        for weight, got in zip(weights, share, strict=True):
            exact = Fraction(weight * (end - start), sum(weights))
            assert got == 0 if weight == 0 else exact - 1 < got < exact + 2
            assert got in (int(exact), int(exact) + 1)


@given(_sizes, st.integers(1, 8))
def test_equal_weights_are_even_in_each_topic_and_over_all(sizes: list[int], members: int) -> None:
    shares = list(weighted_shares(list(accumulate(sizes, initial=0)), [3] * members))
    assert all(spread(share) <= 1 for share in shares)
    assert spread(map(sum, zip(*shares, strict=True))) <= 1


def test_rounding_is_carried_from_topic_to_topic() -> None:
    shares = list(weighted_shares(list(range(101)), [2, 1, 1]))
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
    assert whole_weights({"a": 0.5, "b": 1.5}, ["a", "b", "c"]) == [1, 3, 2]
    for weights in ({"a": -1.0}, {"a": float("nan")}, {"a": float("inf")}, {"a": 0.0, "b": 0.0}):
        with pytest.raises(ConfigurationError):
            whole_weights(weights, list(weights))


def _behind(members: int, lag: list[int], owner: list[int]) -> list[int]:
    sums: Counter[int] = Counter()
    for messages, member in zip(lag, owner, strict=True):
        sums[member] += messages
    return [sums[member] for member in range(members)]


@given(groups(topics=3), st.data(), st.integers(0, 6), st.booleans())
def test_lags_are_evened_out_within_the_budget(group: Group, data: st.DataObject, budget: int, fixed: bool) -> None:
    cut, members, owner = group
    owner = [member if member < members else -1 for member in owner]
    lag = data.draw(st.lists(st.integers(0, 100), min_size=len(owner), max_size=len(owner)))
    planned = sticky(cut, members, owner)
    evened = even_out(cut, members, owner, planned, lag, budget=budget, fixed_counts=fixed)
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
