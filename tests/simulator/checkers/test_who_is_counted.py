"""Checkers of member lists, ownership probes, starts, leaving, last commits and failover of sends."""

import pytest

from simulator.checkers.checker import HistoryEnd
from simulator.checkers.commits_end import CommitsEnd
from simulator.checkers.leavers_leave import LeaversLeave
from simulator.checkers.nobody_overlooked import NobodyOverlooked
from simulator.checkers.only_owners_start import OnlyOwnersStart
from simulator.checkers.owners_probed import OwnersProbed
from simulator.checkers.sends_find_a_way import SendsFindAWay
from simulator.facts import (
    AssignmentPlanned,
    Fact,
    MemberRegistered,
    MemberReported,
    MemberUnregistered,
    ProcessPaused,
    SendGivenUp,
    Situation,
)
from steelyard.model import Queue
from tests.simulator.checkers.fact_builders import (
    Q0,
    acked,
    committed,
    conditions,
    cut,
    gone,
    joined,
    moved,
    owned,
    run_checker,
    sent,
    started,
)

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]
APACHE = conditions(apache_brokers=frozenset({"b"}))


def listed(member: str, at_ms: int) -> MemberRegistered:
    return MemberRegistered(at_ms=at_ms, broker="b", group="g", member=member)


def unlisted(member: str, at_ms: int, how: str = "closed") -> MemberUnregistered:
    return MemberUnregistered(at_ms=at_ms, broker="b", group="g", member=member, how=how)


def planned(member: str, at_ms: int, *members: str) -> AssignmentPlanned:
    return AssignmentPlanned(at_ms=at_ms, member=member, group="g", queues=(Q0,), members=members)


def asked_to_leave(member: str, at_ms: int) -> Situation:
    return Situation(at_ms=at_ms, name="a member is asked to leave", about={"process": member})


LISTED: list[Fact] = [*TWO, listed("m1", 100), listed("m2", 100)]


# -- member lists -----------------------------------------------------------------------------------------------------


def test_a_plan_without_a_member_that_is_listed_is_found() -> None:
    (found,) = run_checker(NobodyOverlooked, [*LISTED, planned("m1", 9_000, "m1")])
    assert "without m2, which b lists since 100 ms" in found.sentence


def test_a_plan_without_its_own_member_is_found() -> None:
    (found,) = run_checker(NobodyOverlooked, [*LISTED, planned("m1", 9_000, "m2")])
    assert "without itself" in found.sentence


@pytest.mark.parametrize(
    "excuse",
    [
        cut("m1", 8_000),
        ProcessPaused(at_ms=8_000, name="b"),
        asked_to_leave("m2", 8_000),
        unlisted("m2", 8_000, "goodbye"),
        gone("b", 8_000),
    ],
)
def test_a_leaving_or_unreachable_member_need_not_be_counted(excuse: Fact) -> None:
    assert not run_checker(NobodyOverlooked, [*LISTED, excuse, planned("m1", 9_000, "m1")])


def test_who_has_just_come_need_not_be_counted() -> None:
    assert not run_checker(NobodyOverlooked, [*TWO, listed("m2", 8_000), planned("m1", 9_000, "m1")])


def test_on_an_apache_broker_a_blip_is_waited_for() -> None:
    blip = [*LISTED, unlisted("m2", 9_000)]
    assert run_checker(NobodyOverlooked, [*blip, planned("m1", 9_200, "m1")], APACHE)
    assert not run_checker(NobodyOverlooked, [*blip, planned("m1", 9_400, "m1")], APACHE)
    assert not run_checker(NobodyOverlooked, [*blip, planned("m1", 9_200, "m1")])
    newcomer = [joined("m3", 8_000), planned("m3", 9_200, "m1", "m3")]
    assert not run_checker(NobodyOverlooked, [*blip, *newcomer], APACHE)


def test_on_an_apache_broker_a_closed_connection_lists_no_member() -> None:
    assert not run_checker(NobodyOverlooked, [*LISTED, cut("m2", 5_000), planned("m1", 9_000, "m1")], APACHE)


# -- ownership probes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("no_excuse", [ProcessPaused(at_ms=3_000, name="m1"), cut("m1", 3_000), cut("m2", 3_000)])
def test_a_holder_that_is_listed_and_silent_is_not_robbed(no_excuse: Fact) -> None:
    (found,) = run_checker(OwnersProbed, [*LISTED, *owned("m1", 200), no_excuse, *owned("m2", 9_000)], APACHE)
    assert "m1 holds since 200 ms" in found.sentence


@pytest.mark.parametrize(
    "excuse",
    [
        unlisted("m1", 3_000),
        gone("b", 3_000),
        gone("m1", 3_000),
        MemberReported(at_ms=3_000, member="m1", group="g", kind="drain-timeout", sentence="", queues=(Q0,)),
        joined("j", 3_000, kind="java"),
    ],
)
def test_who_is_off_the_list_or_has_let_go_may_be_followed(excuse: Fact) -> None:
    assert not run_checker(OwnersProbed, [*LISTED, *owned("m1", 200), excuse, *owned("m2", 9_000)], APACHE)


def test_a_holder_with_a_second_connection_keeps_its_queue_until_that_one_closes_too() -> None:
    back = [
        *LISTED,
        *owned("m1", 200),
        cut("m1", 1_000),
        unlisted("m1", 1_000),
        listed("m1", 1_000),
        listed("m1", 1_010),
    ]
    assert run_checker(OwnersProbed, [*back, *owned("m2", 9_000)], APACHE)
    assert not run_checker(OwnersProbed, [*back, unlisted("m1", 8_000), *owned("m2", 9_000)], APACHE)


def test_leases_and_locks_of_the_order_are_others_business() -> None:
    facts = [*LISTED, *owned("m1", 200), *owned("m2", 9_000)]
    assert not run_checker(OwnersProbed, facts)
    assert not run_checker(OwnersProbed, facts, conditions("orderly", apache_brokers=frozenset({"b"})))


# -- starts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["UNSURE", "COMMITTING", "WANTED", "absent"])
def test_a_start_without_owning_is_found(state: str) -> None:
    (found,) = run_checker(
        OnlyOwnersStart, [*TWO, *owned("m1", 100), moved("m1", 200, "OWNED", state), started("m1", 300)]
    )
    assert f"had the queue {state}" in found.sentence


def test_an_owner_may_start_and_who_drains_may_finish() -> None:
    facts = [*TWO, *owned("m1", 100), started("m1", 200), moved("m1", 300, "OWNED", "DRAINING"), started("m1", 400, 1)]
    assert not run_checker(OnlyOwnersStart, facts)
    assert not run_checker(OnlyOwnersStart, [joined("j", kind="java"), started("j", 100)])


# -- leaving ----------------------------------------------------------------------------------------------------------


def test_a_leaver_that_stays_is_found() -> None:
    facts: list[Fact] = [*TWO, asked_to_leave("m1", 1_000)]
    assert run_checker(LeaversLeave, [*facts, gone("m1", 9_000, "left")])
    assert run_checker(LeaversLeave, facts, end=HistoryEnd(at_ms=9_000))


@pytest.mark.parametrize("end", [gone("m1", 3_000, "left"), gone("m1", 9_000), cut("m2", 2_000)])
def test_one_that_goes_soon_or_dies_or_had_trouble_is_fine(end: Fact) -> None:
    facts = [*TWO, asked_to_leave("m1", 1_000), end]
    assert not run_checker(LeaversLeave, [*facts, gone("m1", 9_000, "left")])


# -- last commits -----------------------------------------------------------------------------------------------------

LET_GO: list[Fact] = [
    *owned("m1", 100),
    moved("m1", 300, "OWNED", "COMMITTING"),
    moved("m1", 400, "COMMITTING", "absent"),
]


def test_a_commit_after_the_release_is_found() -> None:
    (found,) = run_checker(CommitsEnd, [*TWO, *LET_GO, committed("m1", 420, 7)])
    assert "released" in found.sentence
    assert not run_checker(CommitsEnd, [*TWO, *LET_GO[:-1], committed("m1", 320, 7), LET_GO[-1]])


@pytest.mark.parametrize(
    "excuse",
    [
        MemberReported(at_ms=400, member="m1", group="g", kind="lost", sentence="", queues=(Q0,)),
        cut("m1", 350),
        ProcessPaused(at_ms=350, name="m1"),
        joined("j", 350, kind="java"),
    ],
)
def test_a_member_that_lost_a_queue_or_its_connection_may_commit_later(excuse: Fact) -> None:
    assert not run_checker(CommitsEnd, [*TWO, *LET_GO, excuse, committed("m1", 420, 7)])


# -- sends ------------------------------------------------------------------------------------------------------------

SERVERS: list[Fact] = [
    *(sent("u8"), acked("u8", 10, 0)),
    *(sent("u9"), acked("u9", 10, 0, Queue("t", "c", 0))),
]
FAILED = SendGivenUp(at_ms=21_000, uid="u1")


def test_a_send_that_fails_beside_a_broker_that_is_well_is_found() -> None:
    (found,) = run_checker(SendsFindAWay, [*SERVERS, gone("b", 19_000), sent("u1", 20_000), FAILED])
    assert "c would have accepted it" in found.sentence


@pytest.mark.parametrize(
    "excuse",
    [gone("c", 19_500), cut("p", 19_500, other="c"), gone("ns1", 19_500), ProcessPaused(at_ms=19_500, name="p")],
)
def test_a_send_may_fail_if_no_broker_could_accept_it(excuse: Fact) -> None:
    assert not run_checker(SendsFindAWay, [*SERVERS, gone("b", 19_000), excuse, sent("u1", 20_000), FAILED])


def test_what_must_go_to_one_queue_may_fail() -> None:
    assert not run_checker(SendsFindAWay, [*SERVERS, gone("b", 19_000), sent("u1", 20_000, key="k"), FAILED])
