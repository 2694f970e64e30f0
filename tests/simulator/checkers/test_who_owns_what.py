"""Checkers of ownership: one owner, fences, leases, restarts, unregistering."""

import pytest

from simulator.checkers.checker import HistoryEnd
from simulator.checkers.fenced_starts import FencedStarts
from simulator.checkers.grace_kept import GraceKept
from simulator.checkers.holders_first import HoldersFirst
from simulator.checkers.leases_kept import LeasesKept
from simulator.checkers.no_orphan_locks import NoOrphanLocks
from simulator.checkers.one_owner import OneOwner
from simulator.checkers.unregister_last import UnregisterLast
from simulator.facts import (
    Fact,
    MemberRegistered,
    MemberReported,
    MemberUnregistered,
    ProcessPaused,
    ProcessResumed,
    Situation,
)
from tests.simulator.checkers.fact_builders import (
    Q0,
    conditions,
    cut,
    freed,
    gone,
    granted,
    joined,
    moved,
    owned,
    run_checker,
    started,
)

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]

# -- one owner --------------------------------------------------------------------------------------------------------


def test_a_second_owner_is_found_and_named() -> None:
    (found,) = run_checker(OneOwner, [*TWO, *owned("m1", 100), *owned("m2", 5_000)])
    assert (found.kind, found.subsystem, found.at_ms) == ("safety", "balance", 5_000)
    assert "m2" in found.sentence
    assert "m1" in found.sentence
    assert str(Q0) in found.sentence


def test_a_released_queue_may_be_acquired() -> None:
    given = [moved("m1", 4_000, "OWNED", "DRAINING"), moved("m1", 4_100, "DRAINING", "RELEASING")]
    assert not run_checker(OneOwner, [*TWO, *owned("m1", 100), *given, *owned("m2", 4_200)])


@pytest.mark.parametrize(
    "excuse",
    [
        gone("m1", 3_000),
        cut("m1", 3_000),
        ProcessPaused(at_ms=3_000, name="m1"),
        ProcessPaused(at_ms=3_000, name="b"),
        gone("b", 3_000),
        Situation(at_ms=3_000, name="a clock jumped forward", about={"process": "b"}),
        MemberReported(at_ms=3_000, member="m1", group="g", kind="drain-timeout", sentence="", queues=(Q0,)),
        joined("j", 3_000, kind="java"),
    ],
)
def test_a_trouble_of_the_owner_or_its_broker_excuses_a_second_one(excuse: Fact) -> None:
    assert not run_checker(OneOwner, [*TWO, *owned("m1", 100), excuse, *owned("m2", 5_000)])


@pytest.mark.parametrize("no_excuse", [cut("m1", 3_000, other="ns1"), cut("m3", 3_000), gone("m3", 3_000)])
def test_the_trouble_of_others_does_not(no_excuse: Fact) -> None:
    assert run_checker(OneOwner, [*TWO, joined("m3"), *owned("m1", 100), no_excuse, *owned("m2", 5_000)])


def test_on_an_apache_broker_the_trouble_of_any_member_does() -> None:
    facts = [*TWO, joined("m3"), *owned("m1", 100), cut("m3", 3_000), *owned("m2", 5_000)]
    assert not run_checker(OneOwner, facts, conditions(apache_brokers=frozenset({"b"})))


def test_a_drain_that_is_undone_is_found_even_by_way_of_doubt() -> None:
    undone = [moved("m1", 300, "OWNED", "DRAINING"), moved("m1", 400, "DRAINING", "OWNED")]
    assert "without having released it" in run_checker(OneOwner, [*TWO, *owned("m1", 100), *undone])[0].sentence
    doubt = [moved("m1", 300, "OWNED", "DRAINING"), moved("m1", 400, "DRAINING", "UNSURE")]
    assert run_checker(OneOwner, [*TWO, *owned("m1", 100), *doubt, moved("m1", 500, "UNSURE", "OWNED")])
    assert not run_checker(OneOwner, [*TWO, *owned("m1", 100), *doubt, moved("m1", 500, "UNSURE", "DRAINING")])


def test_a_queue_wanted_again_after_its_drain_is_fine() -> None:
    again = [moved("m1", 300, "OWNED", "DRAINING"), moved("m1", 400, "DRAINING", "WANTED"), *owned("m1", 500)]
    assert not run_checker(OneOwner, [*TWO, *owned("m1", 100), *again])


# -- fences -----------------------------------------------------------------------------------------------------------


def test_a_start_of_a_queue_that_was_given_away_is_found() -> None:
    facts = [*TWO, granted("m1", 100), freed("m1", 200), granted("m2", 300, 2), started("m1", 400)]
    (found,) = run_checker(FencedStarts, facts)
    assert "m2 was granted the queue at 300 ms" in found.sentence


def test_a_pause_is_no_excuse_for_a_start_behind_the_fence() -> None:
    asleep: list[Fact] = [ProcessPaused(at_ms=200, name="m1"), freed("m1", 12_300, "gone"), granted("m2", 12_400, 2)]
    facts = [*TWO, granted("m1", 100), *asleep, ProcessResumed(at_ms=20_000, name="m1"), started("m1", 20_001)]
    assert run_checker(FencedStarts, facts)


def test_a_member_that_cannot_know_yet_is_excused_until_the_fence() -> None:
    lost = [cut("m1", 200, "half open"), freed("m1", 600, "gone"), granted("m2", 700, 2)]
    assert not run_checker(FencedStarts, [*TWO, granted("m1", 100), *lost, started("m1", 8_000)])
    assert run_checker(FencedStarts, [*TWO, granted("m1", 100), *lost, started("m1", 13_000)])


def test_on_an_apache_broker_leases_do_not_fence_but_orderly_locks_do() -> None:
    apache = frozenset({"b"})
    locks = [*TWO, granted("m1", 100), granted("m2", 300), started("m1", 400)]
    assert not run_checker(FencedStarts, locks, conditions(apache_brokers=apache))
    order = [*TWO, granted("m1", 100, lock="g"), granted("m2", 300, lock="g"), started("m1", 400)]
    assert run_checker(FencedStarts, order, conditions(apache_brokers=apache, mode="orderly"))


# -- leases -----------------------------------------------------------------------------------------------------------


def test_an_unlock_under_the_owner_is_found_whatever_happened() -> None:
    facts = [*TWO, granted("m1", 100), *owned("m1", 110), cut("m1", 200), freed("m1", 300)]
    assert "(unlocked) under m1" in run_checker(LeasesKept, facts)[0].sentence


def test_a_member_that_is_well_is_not_counted_out() -> None:
    facts = [*TWO, granted("m1", 100), *owned("m1", 110), freed("m1", 300, "gone")]
    assert run_checker(LeasesKept, facts)
    assert not run_checker(LeasesKept, [*facts[:-1], cut("m1", 200), facts[-1]])


def test_a_renewal_that_acquires_is_found() -> None:
    lost = [cut("m1", 200), moved("m1", 210, "OWNED", "UNSURE"), freed("m1", 600, "gone")]
    facts = [*TWO, granted("m1", 100), *owned("m1", 110), *lost]
    (found,) = run_checker(LeasesKept, [*facts, granted("m1", 700, 2)])
    assert "did not request" in found.sentence
    # After a restart the broker gives it back under the epoch it had: that is its own.
    assert not run_checker(LeasesKept, [*facts, granted("m1", 700, 1)])


def test_epochs_that_start_again_after_a_restart_are_found() -> None:
    facts = [*TWO, granted("m1", 100, 5), gone("b", 200), joined("b", 300, "broker"), granted("m2", 4_000, 5)]
    assert "under epoch 5" in run_checker(LeasesKept, facts)[0].sentence
    assert not run_checker(LeasesKept, facts, conditions(clock_faults=True))
    assert not run_checker(LeasesKept, [*facts[:-1], granted("m2", 4_000, 6)])


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restarted_broker_that_gives_all_to_the_first_client_is_found() -> None:
    before = [*TWO, granted("m1", 100), *owned("m1", 110), moved("m1", 9_000, "OWNED", "UNSURE")]
    restart = [gone("b", 9_000), joined("b", 9_500, "broker")]
    (found,) = run_checker(HoldersFirst, [*before, *restart, granted("m2", 10_000, 9)])
    assert "though m1 holds it" in found.sentence
    assert not run_checker(HoldersFirst, [*before, *restart, granted("m2", 13_000, 9)])
    assert not run_checker(HoldersFirst, [*before, gone("m1", 9_100), *restart, granted("m2", 10_000, 9)])
    assert not run_checker(HoldersFirst, [*before, *restart, granted("m1", 10_000, 1)])


# -- orphans ----------------------------------------------------------------------------------------------------------


def test_a_lease_that_outlives_its_dead_member_is_found() -> None:
    facts = [*TWO, granted("m1", 100), gone("m1", 1_000)]
    (found,) = run_checker(NoOrphanLocks, [*facts, joined("m3", 6_000)])
    assert "still keeps" in found.sentence
    assert not run_checker(NoOrphanLocks, [*facts, freed("m1", 1_400, "gone"), joined("m3", 6_000)])


def test_a_dead_members_lease_waits_for_a_broker_that_stood_still_and_for_silence() -> None:
    facts = [*TWO, granted("m1", 100), gone("m1", 1_000)]
    assert not run_checker(NoOrphanLocks, [*facts, ProcessPaused(at_ms=1_100, name="b"), joined("m3", 6_000)])
    assert not run_checker(
        NoOrphanLocks, [*TWO, granted("m1", 100), gone("m1", 1_000, "vanished"), joined("m3", 6_000)]
    )


def test_a_lock_in_the_end_whose_owner_does_not_know_of_it_is_found() -> None:
    locks = (("b", "g%LEASE", Q0, "m1"),)
    facts: list[Fact] = [*TWO, granted("m1", 100)]
    unknown = HistoryEnd(20_000, locks=locks, alive={"g": ("m1", "m2")}, states={"m1": {}, "m2": {Q0: "WANTED"}})
    assert "does not know of it" in run_checker(NoOrphanLocks, facts, end=unknown)[0].sentence
    known = HistoryEnd(20_000, locks=locks, alive={"g": ("m1", "m2")}, states={"m1": {Q0: "OWNED"}, "m2": {}})
    assert not run_checker(NoOrphanLocks, facts, end=known)
    # On an Apache broker a member keeps no lease once it owns the queue, unless a lost connection requested it late.
    assert run_checker(NoOrphanLocks, facts, conditions(apache_brokers=frozenset({"b"})), known)
    assert not run_checker(NoOrphanLocks, [cut("m1", 50), *facts], conditions(apache_brokers=frozenset({"b"})), known)


# -- unregistering ----------------------------------------------------------------------------------------------------

GOODBYE = MemberUnregistered(at_ms=500, broker="b", group="g", member="m1", how="goodbye")


def test_unregistering_before_the_last_unlock_is_found() -> None:
    holding = [*TWO, granted("m1", 100), *owned("m1", 110), moved("m1", 400, "OWNED", "RELEASING")]
    assert "still held its lock" in run_checker(UnregisterLast, [*holding, GOODBYE])[0].sentence
    assert run_checker(UnregisterLast, [*holding, freed("m1", 500, "gone"), GOODBYE])
    assert not run_checker(UnregisterLast, [*holding, freed("m1", 450), GOODBYE])


def test_on_apaches_broker_a_lock_of_a_lost_connection_may_be_granted_later() -> None:
    apache = conditions(apache_brokers=frozenset({"b"}))
    late = [*TWO, cut("m1", 100), granted("m1", 400), GOODBYE]
    assert not run_checker(UnregisterLast, late, apache)
    assert run_checker(UnregisterLast, late)
    assert run_checker(UnregisterLast, [*TWO, granted("m1", 400), GOODBYE], apache)


def test_unregistering_with_a_held_queue_and_a_start_after_it_are_found() -> None:
    apache = conditions(apache_brokers=frozenset({"b"}))
    assert "had it OWNED" in run_checker(UnregisterLast, [*TWO, *owned("m1", 110), GOODBYE], apache)[0].sentence
    assert "after its unregistration" in run_checker(UnregisterLast, [*TWO, GOODBYE, started("m1", 600)])[0].sentence


# -- graces -----------------------------------------------------------------------------------------------------------


def test_a_member_that_is_removed_as_soon_as_its_connection_closes_is_found() -> None:
    def out(at_ms: int, how: str = "closed") -> Fact:
        return MemberUnregistered(at_ms=at_ms, broker="b", group="g", member="m1", how=how)

    assert run_checker(GraceKept, [*TWO, cut("m1", 20_000), out(20_050)])
    assert not run_checker(GraceKept, [*TWO, cut("m1", 20_000), out(20_310)])
    assert not run_checker(GraceKept, [*TWO, cut("m1", 19_000), cut("m1", 20_000), out(20_050)])
    assert not run_checker(GraceKept, [*TWO, cut("m1", 20_000), out(20_050, "goodbye")])


def test_a_queue_in_order_that_changes_hands_too_soon_is_found() -> None:
    facts = [*TWO, granted("m1", 100, lock="g"), gone("m1", 20_000)]
    assert run_checker(GraceKept, [*facts, freed("m1", 20_400, "gone", lock="g")])
    assert not run_checker(GraceKept, [*facts, freed("m1", 22_310, "expired", lock="g")])
    assert not run_checker(GraceKept, [*facts, freed("m1", 20_400, "gone")])


def test_a_holder_that_was_back_in_time_and_lost_its_queue_is_found() -> None:
    before = [*TWO, granted("m1", 100), *owned("m1", 110), moved("m1", 9_000, "OWNED", "UNSURE")]
    restart = [gone("b", 9_000), joined("b", 9_500, "broker")]
    back: list[Fact] = [*before, *restart, MemberRegistered(at_ms=9_600, broker="b", group="g", member="m1")]
    lost = moved("m1", 9_700, "UNSURE", "absent")
    assert "was back at 9600 ms" in run_checker(HoldersFirst, [*back, lost])[0].sentence
    assert not run_checker(HoldersFirst, [*back, granted("m2", 12_600, 9), lost])
    assert not run_checker(HoldersFirst, [*back, moved("m1", 9_700, "UNSURE", "OWNED")])
