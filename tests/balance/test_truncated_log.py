"""What a member does after a broker forgot something: the end of its log, an offset that it had confirmed, or both."""

import pytest

from steelyard.balance.group.actions import Commit, HandleMessages, PullMessages
from steelyard.balance.group.events import HeartbeatAcknowledged, Pulled, PullFailed, PullOutcome, Tick
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from tests.balance.member_harness import ME, MemberHarness, Q


def working(*, ours: bool = True, start: int = 10, done: int = 2) -> MemberHarness:
    """Let a member own a queue, with five messages of which some are done and confirmed; then lose its connection."""
    harness = MemberHarness(ours=ours).own(Q, offset=start)
    harness.pulled(Q, *range(start, start + 5))
    harness.handled(Q, *range(start, start + done))
    harness.confirmed(Q)
    harness.disconnect()
    return harness


def back(harness: MemberHarness, offset: int, *, stored: bool = True) -> None:
    """Let the connection come back, and the broker return the stored offset."""
    harness.connect()
    harness.grant(Q)
    if not harness.ours:
        harness.list_group(ME)
        harness.unlocked(Q)
    harness.offset(Q, offset, stored=stored)


def answer(harness: MemberHarness, outcome: PullOutcome, next_offset: int, **found: str) -> None:
    """Answer the last pull with messages by offset, such as ``m14="other"``."""
    pull = harness.emitted(PullMessages)[-1]
    offsets = [int(name[1:]) for name in found]
    harness.step(Pulled(Q, pull.generation, outcome, next_offset, offsets, list(found.values()), 10))


@pytest.mark.parametrize("ours", [True, False])
def test_the_first_pull_after_a_lost_connection_begins_with_the_last_message_known(ours: bool) -> None:
    harness = working(ours=ours)
    back(harness, 12)
    assert harness.emitted(PullMessages)[-1].offset == 14
    handled = len(harness.emitted(HandleMessages))
    answer(harness, PullOutcome.FOUND, 16, m14="m14", m15="m15")
    assert [each.offsets[0] for each in harness.emitted(HandleMessages)[handled:]] == [15]
    assert harness.emitted(PullMessages)[-1].offset == 16


@pytest.mark.parametrize("ours", [True, False])
def test_another_message_in_its_place_makes_the_queue_start_again_from_what_is_stored(ours: bool) -> None:
    harness = working(ours=ours)
    back(harness, 12)
    answer(harness, PullOutcome.FOUND, 20, m14="other")
    assert harness.emitted(PullMessages)[-1].offset == 12
    assert "rewound" in harness.reports()


@pytest.mark.parametrize("found", [{}, {"m15": "m15"}])
def test_a_place_that_holds_nothing_we_want_any_more_was_written_anew(found: dict[str, str]) -> None:
    harness = working()
    back(harness, 12)
    answer(harness, PullOutcome.FOUND if found else PullOutcome.NOTHING, 16, **found)
    assert harness.emitted(PullMessages)[-1].offset == 12


def test_a_log_that_ends_before_what_is_stored_is_read_from_its_end() -> None:
    harness = working()
    back(harness, 12)
    answer(harness, PullOutcome.OFFSET_MOVED, 11)
    assert harness.emitted(PullMessages)[-1].offset == 11
    harness.wait(1_000)
    assert harness.emitted(Commit)[-1].offset == 11


def test_messages_that_went_with_their_age_are_no_lost_end() -> None:
    harness = working()
    back(harness, 12)
    answer(harness, PullOutcome.OFFSET_MOVED, 40)
    assert harness.emitted(PullMessages)[-1].offset == 40
    assert "rewound" not in harness.reports()


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_keeps_the_window_if_the_log_is_whole(ours: bool) -> None:
    harness = working(ours=ours)
    back(harness, 99, stored=False)
    answer(harness, PullOutcome.FOUND, 15, m14="m14")
    harness.wait(1_000)
    assert (harness.emitted(PullMessages)[-1].offset, harness.emitted(Commit)[-1].offset) == (15, 12)


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_with_the_log_starts_at_the_first_message(ours: bool) -> None:
    harness = working(ours=ours)
    back(harness, 99, stored=False)
    answer(harness, PullOutcome.FOUND, 15, m14="other")
    assert harness.emitted(PullMessages)[-1].offset == 0


@pytest.mark.parametrize("ours", [True, False])
def test_a_confirmed_offset_that_vanished_before_anything_was_pulled_starts_at_the_first_message(ours: bool) -> None:
    harness = MemberHarness(ours=ours).own(Q, offset=10)
    harness.disconnect()
    back(harness, 99, stored=False)
    assert (harness.state(), harness.emitted(PullMessages)[-1].offset) == (QueueState.OWNED, 0)


def test_less_than_confirmed_under_our_lease_counts_where_nothing_shows_that_the_log_is_whole() -> None:
    harness = MemberHarness().own(Q, offset=10)
    harness.disconnect()
    back(harness, 7)
    assert harness.emitted(PullMessages)[-1].offset == 7
    whole = working()
    back(whole, 7)
    answer(whole, PullOutcome.FOUND, 15, m14="m14")
    assert whole.emitted(PullMessages)[-1].offset == 15


def test_what_was_never_committed_is_not_missed() -> None:
    harness = MemberHarness()
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.offset(Q, 40, stored=False)
    harness.pulled(Q, 40, 41)
    harness.disconnect()
    back(harness, 99, stored=False)
    answer(harness, PullOutcome.FOUND, 42, m41="m41")
    assert harness.emitted(PullMessages)[-1].offset == 42
    harness.disconnect()
    back(harness, 99, stored=False)
    answer(harness, PullOutcome.FOUND, 42, m41="other")
    assert harness.emitted(PullMessages)[-1].offset == 40


def test_who_broadcasts_goes_back_to_where_it_began() -> None:
    harness = MemberHarness(mode=ConsumeMode.BROADCAST).own(Q, offset=10)
    harness.pulled(Q, 10, 11, 12)
    harness.disconnect()
    harness.connect()
    answer(harness, PullOutcome.OFFSET_MOVED, 11)
    assert harness.emitted(PullMessages)[-1].offset == 10


def test_a_pull_that_was_never_cut_off_is_no_proof_and_needs_none() -> None:
    harness = MemberHarness().own(Q, offset=10)
    harness.pulled(Q, 10, 11)
    harness.answers_heartbeats = False
    harness.now_ms += 10_000
    harness.step(Tick())
    assert harness.state() is QueueState.UNSURE
    harness.step(HeartbeatAcknowledged("b", is_steelyard=True, heartbeat_ms=3_000))
    harness.grant(Q)
    harness.offset(Q, 10)
    assert harness.state() is QueueState.OWNED
    answer(harness, PullOutcome.FOUND, 13, m12="m12")
    assert (harness.emitted(PullMessages)[-1].offset, "rewound" in harness.reports()) == (13, False)


def test_what_is_given_up_after_a_doubt_is_given_up_where_nothing_is_passed_over() -> None:
    for is_same, offset in ((True, 12), (False, 11)):
        harness = working()
        harness.plan()
        back(harness, 11)
        harness.handled(Q, 12, 13, 14)
        assert (harness.state(), len(harness.emitted(Commit))) == (QueueState.DRAINING, 1)
        answer(harness, PullOutcome.FOUND, 15, m14="m14" if is_same else "other")
        assert (harness.state(), harness.emitted(Commit)[-1].offset) == (
            QueueState.COMMITTING,
            15 if is_same else offset,
        )


def test_a_drain_that_was_unsure_checks_the_log_and_repeats_a_check_that_failed() -> None:
    harness = MemberHarness().own(Q, offset=10)
    harness.pulled(Q, 10, 11)
    harness.plan()
    harness.disconnect()
    harness.handled(Q, 10, 11)
    back(harness, 10)
    assert (harness.state(), harness.emitted(PullMessages)[-1].offset) == (QueueState.DRAINING, 11)
    harness.step(PullFailed(Q, harness.emitted(PullMessages)[-1].generation))
    pulls = len(harness.emitted(PullMessages))
    harness.wait(1_000)
    assert len(harness.emitted(PullMessages)) == pulls + 1
    answer(harness, PullOutcome.FOUND, 12, m11="m11")
    assert harness.emitted(Commit)[-1].offset == 12


def test_a_drain_whose_time_is_over_still_checks_the_log() -> None:
    harness = MemberHarness().own(Q, offset=10)
    harness.pulled(Q, 10, 11)
    harness.plan()
    harness.disconnect()
    back(harness, 10)
    harness.wait(30_000)
    assert "drain-timeout" in harness.reports()
    assert harness.state() is QueueState.DRAINING
    answer(harness, PullOutcome.FOUND, 12, m11="m11")
    assert (harness.state(), harness.emitted(Commit)) == (QueueState.RELEASING, [])


def test_a_check_of_the_log_does_not_wait_for_messages_and_nothing_is_committed_before_it() -> None:
    harness = working()
    back(harness, 12)
    harness.handled(Q, 12)
    harness.wait(2_000)
    assert (harness.emitted(PullMessages)[-1].is_long_poll, [each.offset for each in harness.emitted(Commit)]) == (
        False,
        [12],
    )
    answer(harness, PullOutcome.FOUND, 15, m14="m14")
    assert (harness.emitted(PullMessages)[-1].is_long_poll, harness.emitted(Commit)[-1].offset) == (True, 13)


def test_a_queue_that_holds_too_much_still_checks_whether_the_log_is_the_same() -> None:
    harness = MemberHarness(queue_messages=2, handlers=1).own(Q)
    harness.pulled(Q, 0, 1, 2, 3)
    harness.disconnect()
    back(harness, 0)
    assert harness.emitted(PullMessages)[-1].offset == 3
    answer(harness, PullOutcome.FOUND, 4, m3="m3")
    assert len(harness.emitted(PullMessages)) == 2


def test_a_correction_downwards_forgets_nothing_unfinished() -> None:
    harness = MemberHarness(handlers=1).own(Q)
    harness.pulled(Q, 0, 1, 2, 3)
    harness.handled(Q, 0)
    answer(harness, PullOutcome.OFFSET_MOVED, 3)
    assert harness.emitted(PullMessages)[-1].offset == 1
    harness.pulled(Q, 1, 2)
    harness.handled(Q, 1)
    harness.wait(1_000)
    assert harness.emitted(HandleMessages)[-1].offsets[0] == 1
