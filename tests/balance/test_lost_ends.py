"""What a member does after a broker forgot something: the end of its log, an offset that it had confirmed, or both."""

import pytest
from tests.balance.stage import ME, Q, Stage

from steelyard.balance.actions import Commit, Handle, Pull
from steelyard.balance.events import BeatAnswered, Pulled, PullFailed, PullOutcome, Tick
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode


def working(*, ours: bool = True, start: int = 10, done: int = 2) -> Stage:
    """Let a member own a queue, with five messages of which some are done and confirmed; then its line is cut."""
    stage = Stage(ours=ours).own(Q, offset=start)
    stage.pulled(Q, *range(start, start + 5))
    stage.handled(Q, *range(start, start + done))
    stage.confirmed(Q)
    stage.cut()
    return stage


def back(stage: Stage, offset: int, *, stored: bool = True) -> None:
    """Let the line come back, and the broker tell what it has stored."""
    stage.connect()
    stage.grant(Q)
    if not stage.ours:
        stage.list_group(ME)
        stage.unlocked(Q)
    stage.offset(Q, offset, stored=stored)


def answer(stage: Stage, outcome: PullOutcome, next_offset: int, **found: str) -> None:
    """Answer the last pull with messages by offset, such as ``m14="other"``."""
    pull = stage.said(Pull)[-1]
    offsets = [int(name[1:]) for name in found]
    stage.step(Pulled(Q, pull.generation, outcome, next_offset, offsets, list(found.values()), 10))


@pytest.mark.parametrize("ours", [True, False])
def test_the_first_pull_after_a_cut_begins_with_the_last_message_known(ours: bool) -> None:
    stage = working(ours=ours)
    back(stage, 12)
    assert stage.said(Pull)[-1].offset == 14
    handled = len(stage.said(Handle))
    answer(stage, PullOutcome.FOUND, 16, m14="m14", m15="m15")
    assert [each.offsets[0] for each in stage.said(Handle)[handled:]] == [15]
    assert stage.said(Pull)[-1].offset == 16


@pytest.mark.parametrize("ours", [True, False])
def test_another_message_in_its_place_makes_the_queue_start_again_from_what_is_stored(ours: bool) -> None:
    stage = working(ours=ours)
    back(stage, 12)
    answer(stage, PullOutcome.FOUND, 20, m14="other")
    assert stage.said(Pull)[-1].offset == 12
    assert "rewound" in stage.reports()


@pytest.mark.parametrize("found", [{}, {"m15": "m15"}])
def test_a_place_that_holds_nothing_we_want_any_more_was_written_anew(found: dict[str, str]) -> None:
    stage = working()
    back(stage, 12)
    answer(stage, PullOutcome.FOUND if found else PullOutcome.NOTHING, 16, **found)
    assert stage.said(Pull)[-1].offset == 12


def test_a_log_that_ends_before_what_is_stored_is_read_from_its_end() -> None:
    stage = working()
    back(stage, 12)
    answer(stage, PullOutcome.MOVED, 11)
    assert stage.said(Pull)[-1].offset == 11
    stage.wait(1_000)
    assert stage.said(Commit)[-1].offset == 11


def test_messages_that_went_with_their_age_are_no_lost_end() -> None:
    stage = working()
    back(stage, 12)
    answer(stage, PullOutcome.MOVED, 40)
    assert stage.said(Pull)[-1].offset == 40
    assert "rewound" not in stage.reports()


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_keeps_the_window_if_the_log_is_whole(ours: bool) -> None:
    stage = working(ours=ours)
    back(stage, 99, stored=False)
    answer(stage, PullOutcome.FOUND, 15, m14="m14")
    stage.wait(1_000)
    assert (stage.said(Pull)[-1].offset, stage.said(Commit)[-1].offset) == (15, 12)


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_with_the_log_starts_at_the_first_message(ours: bool) -> None:
    stage = working(ours=ours)
    back(stage, 99, stored=False)
    answer(stage, PullOutcome.FOUND, 15, m14="other")
    assert stage.said(Pull)[-1].offset == 0


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_before_anything_was_pulled_starts_at_the_first_message(ours: bool) -> None:
    stage = Stage(ours=ours).own(Q, offset=10)
    stage.cut()
    back(stage, 99, stored=False)
    assert (stage.state(), stage.said(Pull)[-1].offset) == (State.OWNED, 0)


def test_less_than_confirmed_under_our_lease_counts_where_nothing_tells_that_the_log_is_whole() -> None:
    stage = Stage().own(Q, offset=10)
    stage.cut()
    back(stage, 7)
    assert stage.said(Pull)[-1].offset == 7
    whole = working()
    back(whole, 7)
    answer(whole, PullOutcome.FOUND, 15, m14="m14")
    assert whole.said(Pull)[-1].offset == 15


def test_what_was_never_committed_is_not_missed() -> None:
    stage = Stage()
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.offset(Q, 40, stored=False)
    stage.pulled(Q, 40, 41)
    stage.cut()
    back(stage, 99, stored=False)
    answer(stage, PullOutcome.FOUND, 42, m41="m41")
    assert stage.said(Pull)[-1].offset == 42
    stage.cut()
    back(stage, 99, stored=False)
    answer(stage, PullOutcome.FOUND, 42, m41="other")
    assert stage.said(Pull)[-1].offset == 40


def test_who_broadcasts_goes_back_to_where_it_began() -> None:
    stage = Stage(mode=Mode.BROADCAST).own(Q, offset=10)
    stage.pulled(Q, 10, 11, 12)
    stage.cut()
    stage.connect()
    answer(stage, PullOutcome.MOVED, 11)
    assert stage.said(Pull)[-1].offset == 10


def test_a_pull_that_was_never_cut_off_is_no_proof_and_needs_none() -> None:
    stage = Stage().own(Q, offset=10)
    stage.pulled(Q, 10, 11)
    stage.answers_beats = False
    stage.now_ms += 10_000
    stage.step(Tick())
    assert stage.state() is State.UNSURE
    stage.step(BeatAnswered("b", ours=True, heartbeat_ms=3_000))
    stage.grant(Q)
    stage.offset(Q, 10)
    assert stage.state() is State.OWNED
    answer(stage, PullOutcome.FOUND, 13, m12="m12")
    assert (stage.said(Pull)[-1].offset, "rewound" in stage.reports()) == (13, False)


def test_what_is_given_up_after_a_doubt_is_given_up_where_nothing_is_passed_over() -> None:
    for is_same, offset in ((True, 12), (False, 11)):
        stage = working()
        stage.plan()
        back(stage, 11)
        stage.handled(Q, 12, 13, 14)
        assert (stage.state(), len(stage.said(Commit))) == (State.DRAINING, 1)
        answer(stage, PullOutcome.FOUND, 15, m14="m14" if is_same else "other")
        assert (stage.state(), stage.said(Commit)[-1].offset) == (State.COMMITTING, 15 if is_same else offset)


def test_a_drain_that_was_doubted_looks_at_the_log_and_repeats_a_look_that_failed() -> None:
    stage = Stage().own(Q, offset=10)
    stage.pulled(Q, 10, 11)
    stage.plan()
    stage.cut()
    stage.handled(Q, 10, 11)
    back(stage, 10)
    assert (stage.state(), stage.said(Pull)[-1].offset) == (State.DRAINING, 11)
    stage.step(PullFailed(Q, stage.said(Pull)[-1].generation))
    pulls = len(stage.said(Pull))
    stage.wait(1_000)
    assert len(stage.said(Pull)) == pulls + 1
    answer(stage, PullOutcome.FOUND, 12, m11="m11")
    assert stage.said(Commit)[-1].offset == 12


def test_a_drain_whose_time_is_over_still_looks_at_the_log() -> None:
    stage = Stage().own(Q, offset=10)
    stage.pulled(Q, 10, 11)
    stage.plan()
    stage.cut()
    back(stage, 10)
    stage.wait(30_000)
    assert "drain-bound" in stage.reports()
    assert stage.state() is State.DRAINING
    answer(stage, PullOutcome.FOUND, 12, m11="m11")
    assert (stage.state(), stage.said(Commit)) == (State.RELEASING, [])


def test_a_look_at_the_log_does_not_wait_for_messages_and_nothing_is_committed_before_it() -> None:
    stage = working()
    back(stage, 12)
    stage.handled(Q, 12)
    stage.wait(2_000)
    assert (stage.said(Pull)[-1].may_wait, [each.offset for each in stage.said(Commit)]) == (False, [12])
    answer(stage, PullOutcome.FOUND, 15, m14="m14")
    assert (stage.said(Pull)[-1].may_wait, stage.said(Commit)[-1].offset) == (True, 13)


def test_a_queue_that_holds_too_much_still_looks_whether_the_log_is_the_same() -> None:
    stage = Stage(queue_messages=2, handlers=1).own(Q)
    stage.pulled(Q, 0, 1, 2, 3)
    stage.cut()
    back(stage, 0)
    assert stage.said(Pull)[-1].offset == 3
    answer(stage, PullOutcome.FOUND, 4, m3="m3")
    assert len(stage.said(Pull)) == 2


def test_a_correction_downwards_forgets_nothing_unfinished() -> None:
    stage = Stage(handlers=1).own(Q)
    stage.pulled(Q, 0, 1, 2, 3)
    stage.handled(Q, 0)
    answer(stage, PullOutcome.MOVED, 3)
    assert stage.said(Pull)[-1].offset == 1
    stage.pulled(Q, 1, 2)
    stage.handled(Q, 1)
    stage.wait(1_000)
    assert stage.said(Handle)[-1].offsets[0] == 1
