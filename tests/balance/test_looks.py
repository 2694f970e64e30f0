"""When a member looks at its group: at once after a notice, seldom in a storm, and by the clock."""

from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.balance.crowd import NAMES, Crowd, settled

from steelyard.balance.events import GroupFailed, GroupSeen, LineCut, LineOpened, MembersChanged, Poked, RouteSeen
from steelyard.balance.member_options import Times
from steelyard.model import Queue

_TIMES = Times()


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 350), min_size=1, max_size=60),
    slowest_ms=st.integers(0, 300),
    seed=st.integers(0, 1 << 32),
)
def test_a_storm_of_notices_costs_few_rounds(gaps: list[int], slowest_ms: int, seed: int) -> None:
    # No looks but those that notices cause.
    crowd = Crowd({"a": {"t": 4}}, times=Times(round_soon_ms=10**9), seed=seed, slowest_ms=slowest_ms)
    member = crowd.join(NAMES[0], "t")
    crowd.run(4_000)
    rounds, began_ms = member.views.rounds, crowd.now_ms
    for gap_ms in gaps:
        crowd.hear(member, MembersChanged("a"))
        last_ms = crowd.now_ms
        crowd.run(gap_ms)
    crowd.run(2_000)
    storm_ms = last_ms - began_ms + 1
    assert 1 <= member.views.rounds - rounds <= ceil(storm_ms / _TIMES.round_gap_ms) + 2


def test_the_first_notice_acts_at_once_and_those_during_a_round_make_one_more() -> None:
    crowd = Crowd({"a": {"t": 4}}, slowest_ms=50, seed=3)
    member = crowd.join(NAMES[0], "t")
    crowd.run(2_000)
    rounds = member.views.rounds
    crowd.hear(member, MembersChanged("a"))
    assert member.views.rounds == rounds + 1
    for _ in range(10):
        crowd.hear(member, MembersChanged("a"))
    assert member.views.rounds == rounds + 1
    crowd.run(1_000)
    assert member.views.rounds == rounds + 2


def test_eight_joins_at_once_cost_few_rounds() -> None:
    crowd = Crowd({"a": {"t": 16}})
    members = [crowd.join(name, "t") for name in NAMES]
    crowd.run(1_000)
    assert crowd.planned() == sorted(crowd.readable())
    assert sum(member.views.rounds for member in members) <= 26


def test_a_group_at_rest_is_looked_at_each_twenty_seconds_and_a_restless_one_each_five() -> None:
    crowd = Crowd({"a": {"t": 4}})
    member = crowd.join(NAMES[0], "t")
    crowd.run(70_000)
    rounds = member.views.rounds
    crowd.run(60_000)
    assert member.views.rounds - rounds == 3
    member.views.restless = True
    crowd.run(60_000)
    assert member.views.rounds - rounds in (15, 16)


def test_a_poke_counts_if_it_is_about_a_queue_of_ours() -> None:
    crowd = Crowd({"a": {"t": 4}})
    first, second, _ = settled(crowd)
    crowd.run(300)
    rounds = first.views.rounds
    crowd.hear(first, Poked(second.id))
    crowd.hear(first, Poked(second.id, second.plan))
    assert first.views.rounds == rounds
    crowd.hear(first, Poked(second.id, first.plan))
    assert first.views.rounds == rounds + 1


def test_a_list_that_somebody_else_asked_for_is_learnt_from() -> None:
    crowd = Crowd({"a": {"t": 4}}, ours=False)
    first, second, third = settled(crowd)
    crowd.run(300)
    rounds = first.views.rounds
    known = (first.id, second.id, third.id)
    crowd.hear(first, GroupSeen("a", known, ticket=7))
    crowd.hear(first, GroupFailed("a", ticket=7))
    assert first.views.rounds == rounds
    crowd.hear(first, GroupSeen("a", (*known, "new@sy1"), ticket=9))
    assert "new@sy1" in first.views.listed("a", crowd.now_ms)
    assert first.views.rounds == rounds + 1


def test_a_list_counts_for_a_taker_though_its_broker_is_in_no_route() -> None:
    crowd = Crowd({"a": {"t": 2}, "b": {"t": 2}})
    first, second, _ = settled(crowd)
    crowd.hear(first, RouteSeen("t", tuple(Queue("t", "a", number) for number in range(2))))
    assert second.id in first.views.listed("b", crowd.now_ms)
    crowd.hear(first, GroupSeen("b", (first.id, "new@sy1"), ticket=11))
    assert "new@sy1" in first.views.listed("b", crowd.now_ms)
    assert "new@sy1" not in first.views.members()


def test_a_cut_ends_a_round_that_waits_for_it() -> None:
    crowd = Crowd({"a": {"t": 4}})
    first, *_ = settled(crowd)
    plan = first.plan
    crowd.brokers["a"].is_silent = True
    crowd.hear(first, MembersChanged("a"))
    crowd.hear(first, LineCut("a"))
    crowd.brokers["a"].is_silent = False
    rounds = first.views.rounds
    crowd.run(10_000)
    assert (first.views.rounds, first.plan) == (rounds, plan), "there is nobody to ask"
    crowd.hear(first, LineOpened("a"))
    crowd.run(100)
    assert (first.views.rounds, first.plan) == (rounds + 1, plan)
