"""The rules about who is counted, who is asked, who may start, whose word is the last, and who gets away."""

import pytest
from tests.sim.checkers.told import Q0, acked, committed, cut, gone, joined, judge, moved, owned, sent, started, terms

from steelyard.model import Queue
from steelyard.sim.checkers.checker import End
from steelyard.sim.checkers.commits_end import CommitsEnd
from steelyard.sim.checkers.holders_asked import HoldersAsked
from steelyard.sim.checkers.leavers_leave import LeaversLeave
from steelyard.sim.checkers.nobody_overlooked import NobodyOverlooked
from steelyard.sim.checkers.only_owners_start import OnlyOwnersStart
from steelyard.sim.checkers.sends_find_a_way import SendsFindAWay
from steelyard.sim.facts import Fact, Paused, Planned, Registered, Reported, SendFailed, Situation, Unregistered

TWO: list[Fact] = [joined("b", kind="broker"), joined("m1"), joined("m2")]
APACHE = terms(apache_brokers=frozenset({"b"}))


def listed(member: str, at_ms: int) -> Registered:
    return Registered(at_ms=at_ms, broker="b", group="g", member=member)


def unlisted(member: str, at_ms: int, how: str = "closed") -> Unregistered:
    return Unregistered(at_ms=at_ms, broker="b", group="g", member=member, how=how)


def planned(member: str, at_ms: int, *members: str) -> Planned:
    return Planned(at_ms=at_ms, member=member, group="g", queues=(Q0,), members=members)


def asked_to_leave(member: str, at_ms: int) -> Situation:
    return Situation(at_ms=at_ms, name="a member is asked to leave", about={"process": member})


LISTED: list[Fact] = [*TWO, listed("m1", 100), listed("m2", 100)]


# -- who is counted ---------------------------------------------------------------------------------------------------


def test_a_plan_without_a_member_that_is_listed_is_found() -> None:
    (found,) = judge(NobodyOverlooked, [*LISTED, planned("m1", 9_000, "m1")])
    assert "without m2, which b lists since 100 ms" in found.sentence


def test_a_plan_without_its_own_member_is_found() -> None:
    (found,) = judge(NobodyOverlooked, [*LISTED, planned("m1", 9_000, "m2")])
    assert "without itself" in found.sentence


@pytest.mark.parametrize(
    "excuse",
    [
        cut("m1", 8_000),
        Paused(at_ms=8_000, name="b"),
        asked_to_leave("m2", 8_000),
        unlisted("m2", 8_000, "goodbye"),
        gone("b", 8_000),
    ],
)
def test_who_leaves_or_cannot_be_heard_of_need_not_be_counted(excuse: Fact) -> None:
    assert not judge(NobodyOverlooked, [*LISTED, excuse, planned("m1", 9_000, "m1")])


def test_who_has_just_come_need_not_be_counted() -> None:
    assert not judge(NobodyOverlooked, [*TWO, listed("m2", 8_000), planned("m1", 9_000, "m1")])


def test_on_an_apache_broker_a_blip_is_waited_for() -> None:
    blip = [*LISTED, unlisted("m2", 9_000)]
    assert judge(NobodyOverlooked, [*blip, planned("m1", 9_200, "m1")], APACHE)
    assert not judge(NobodyOverlooked, [*blip, planned("m1", 9_400, "m1")], APACHE)
    assert not judge(NobodyOverlooked, [*blip, planned("m1", 9_200, "m1")])
    newcomer = [joined("m3", 8_000), planned("m3", 9_200, "m1", "m3")]
    assert not judge(NobodyOverlooked, [*blip, *newcomer], APACHE)


def test_on_an_apache_broker_a_line_that_is_closed_lists_nobody() -> None:
    assert not judge(NobodyOverlooked, [*LISTED, cut("m2", 5_000), planned("m1", 9_000, "m1")], APACHE)


# -- who is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("no_excuse", [Paused(at_ms=3_000, name="m1"), cut("m1", 3_000), cut("m2", 3_000)])
def test_a_holder_that_is_listed_and_silent_is_not_robbed(no_excuse: Fact) -> None:
    (found,) = judge(HoldersAsked, [*LISTED, *owned("m1", 200), no_excuse, *owned("m2", 9_000)], APACHE)
    assert "m1 holds since 200 ms" in found.sentence


@pytest.mark.parametrize(
    "excuse",
    [
        unlisted("m1", 3_000),
        gone("b", 3_000),
        gone("m1", 3_000),
        Reported(at_ms=3_000, member="m1", group="g", kind="drain-bound", sentence="", queues=(Q0,)),
        joined("j", 3_000, kind="java"),
    ],
)
def test_who_is_off_the_list_or_has_let_go_may_be_followed(excuse: Fact) -> None:
    assert not judge(HoldersAsked, [*LISTED, *owned("m1", 200), excuse, *owned("m2", 9_000)], APACHE)


def test_a_holder_with_a_second_line_is_not_robbed_until_that_one_closes_too() -> None:
    back = [
        *LISTED,
        *owned("m1", 200),
        cut("m1", 1_000),
        unlisted("m1", 1_000),
        listed("m1", 1_000),
        listed("m1", 1_010),
    ]
    assert judge(HoldersAsked, [*back, *owned("m2", 9_000)], APACHE)
    assert not judge(HoldersAsked, [*back, unlisted("m1", 8_000), *owned("m2", 9_000)], APACHE)


def test_leases_and_locks_of_the_order_are_others_business() -> None:
    story = [*LISTED, *owned("m1", 200), *owned("m2", 9_000)]
    assert not judge(HoldersAsked, story)
    assert not judge(HoldersAsked, story, terms("orderly", apache_brokers=frozenset({"b"})))


# -- who may start ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["UNSURE", "COMMITTING", "WANTED", "absent"])
def test_a_start_without_owning_is_found(state: str) -> None:
    (found,) = judge(OnlyOwnersStart, [*TWO, *owned("m1", 100), moved("m1", 200, "OWNED", state), started("m1", 300)])
    assert f"had the queue {state}" in found.sentence


def test_an_owner_may_start_and_who_drains_may_finish() -> None:
    story = [*TWO, *owned("m1", 100), started("m1", 200), moved("m1", 300, "OWNED", "DRAINING"), started("m1", 400, 1)]
    assert not judge(OnlyOwnersStart, story)
    assert not judge(OnlyOwnersStart, [joined("j", kind="java"), started("j", 100)])


# -- who gets away ----------------------------------------------------------------------------------------------------


def test_a_leaver_that_stays_is_found() -> None:
    story: list[Fact] = [*TWO, asked_to_leave("m1", 1_000)]
    assert judge(LeaversLeave, [*story, gone("m1", 9_000, "left")])
    assert judge(LeaversLeave, story, end=End(at_ms=9_000))


@pytest.mark.parametrize("end", [gone("m1", 3_000, "left"), gone("m1", 9_000), cut("m2", 2_000)])
def test_one_that_goes_soon_or_dies_or_had_trouble_is_fine(end: Fact) -> None:
    story = [*TWO, asked_to_leave("m1", 1_000), end]
    assert not judge(LeaversLeave, [*story, gone("m1", 9_000, "left")])


# -- whose word is the last ------------------------------------------------------------------------------------------

LET_GO: list[Fact] = [
    *owned("m1", 100),
    moved("m1", 300, "OWNED", "COMMITTING"),
    moved("m1", 400, "COMMITTING", "absent"),
]


def test_a_commit_after_letting_go_is_found() -> None:
    (found,) = judge(CommitsEnd, [*TWO, *LET_GO, committed("m1", 420, 7)])
    assert "let go of" in found.sentence
    assert not judge(CommitsEnd, [*TWO, *LET_GO[:-1], committed("m1", 320, 7), LET_GO[-1]])


@pytest.mark.parametrize(
    "excuse",
    [
        Reported(at_ms=400, member="m1", group="g", kind="lost", sentence="", queues=(Q0,)),
        cut("m1", 350),
        Paused(at_ms=350, name="m1"),
        joined("j", 350, kind="java"),
    ],
)
def test_who_lost_a_queue_or_its_line_may_be_heard_later(excuse: Fact) -> None:
    assert not judge(CommitsEnd, [*TWO, *LET_GO, excuse, committed("m1", 420, 7)])


# -- what finds a way -------------------------------------------------------------------------------------------------

SERVERS: list[Fact] = [
    *(sent("u8"), acked("u8", 10, 0)),
    *(sent("u9"), acked("u9", 10, 0, Queue("t", "c", 0))),
]
FAILED = SendFailed(at_ms=21_000, uid="u1")


def test_a_send_that_fails_beside_a_broker_that_is_well_is_found() -> None:
    (found,) = judge(SendsFindAWay, [*SERVERS, gone("b", 19_000), sent("u1", 20_000), FAILED])
    assert "c would have taken it" in found.sentence


@pytest.mark.parametrize(
    "excuse", [gone("c", 19_500), cut("p", 19_500, other="c"), gone("ns1", 19_500), Paused(at_ms=19_500, name="p")]
)
def test_a_send_may_fail_if_nobody_could_take_it(excuse: Fact) -> None:
    assert not judge(SendsFindAWay, [*SERVERS, gone("b", 19_000), excuse, sent("u1", 20_000), FAILED])


def test_what_must_go_to_one_queue_may_fail() -> None:
    assert not judge(SendsFindAWay, [*SERVERS, gone("b", 19_000), sent("u1", 20_000, key="k"), FAILED])
