"""Messages in the hands of one member: whose turn it is, what becomes of failures, and what is committed."""

from tests.balance.stage import Q1, Q, Stage

from steelyard.balance.actions import Commit, Handle, Pull, SendBack
from steelyard.balance.events import (
    CommitFailed,
    Handled,
    OffsetReset,
    Pulled,
    PullFailed,
    PullOutcome,
    SendBackFailed,
    SentBack,
)
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode


def _started(stage: Stage) -> list[tuple[int, int]]:
    return [(handle.queue.queue_id, offset) for handle in stage.said(Handle) for offset in handle.offsets]


# -- turns ------------------------------------------------------------------------------------------------------------


def test_queues_take_turns() -> None:
    stage = Stage(handlers=1).own(Q, Q1)
    stage.pulled(Q, 0, 1, 2)
    stage.pulled(Q1, 0, 1, 2)
    for queue, offset in ((Q, 0), (Q, 1), (Q1, 0), (Q, 2), (Q1, 1)):
        stage.handled(queue, offset)
    assert _started(stage) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2)]


def test_a_chunk_is_one_handler() -> None:
    stage = Stage(handlers=2, chunk=2).own(Q)
    stage.pulled(Q, 0, 1, 2, 3, 4)
    assert [list(handle.offsets) for handle in stage.said(Handle)] == [[0, 1], [2, 3]]
    stage.handled(Q, 0)
    assert len(stage.said(Handle)) == 2
    stage.handled(Q, 1)
    assert [list(handle.offsets) for handle in stage.said(Handle)] == [[0, 1], [2, 3], [4]]


def test_the_next_pull_goes_out_before_messages_are_handled() -> None:
    stage = Stage().own(Q)
    said = stage.pulled(Q, 0, 1)
    assert [type(action) for action in said] == [Pull, Handle, Handle]


def test_what_was_not_begun_of_a_chunk_is_begun_later() -> None:
    stage = Stage(handlers=1, chunk=3).own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.step(Handled(Q, stage.generation(Q), [0], skipped=[1, 2]))
    assert _started(stage) == [(0, 0), (0, 1), (0, 2), (0, 1)]
    stage.wait(1_000)
    assert stage.said(Commit)[-1].offset == 1


def test_a_pull_that_failed_is_repeated_after_a_pause() -> None:
    stage = Stage().own(Q)
    generation = stage.said(Pull)[0].generation
    stage.step(PullFailed(Q, generation))
    stage.wait(999)
    assert len(stage.said(Pull)) == 1
    stage.wait(1)
    assert len(stage.said(Pull)) == 2
    stage.step(PullFailed(Q, generation, busy=True))
    stage.wait(20)
    assert len(stage.said(Pull)) == 3


def test_a_pull_that_is_never_answered_starts_the_queue_anew() -> None:
    stage = Stage().own(Q)
    stage.wait(119_999)
    assert stage.state() is State.OWNED
    stage.wait(1)
    assert stage.state() is State.STARTING
    stage.offset(Q, 4)
    assert stage.said(Pull)[-1].offset == 4
    assert stage.said(Pull)[-1].generation > stage.said(Pull)[0].generation


def test_a_handler_that_ends_after_its_message_was_given_back_finds_its_queue_anywhere() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    generation = stage.generation(Q)
    for _ in range(15):
        stage.wait(60_000)
        stage.pulled(Q)
    back = stage.said(SendBack)[-1]
    stage.step(SentBack(Q, back.generation, back.offset))
    stage.confirmed(Q)
    stage.plan()
    assert stage.state() is State.RELEASING
    stage.step(Handled(Q, generation, [0]))
    assert stage.reports()[-1] == "stranger"
    assert stage.state() is State.RELEASING


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_a_start_that_is_not_stored_is_committed_at_once() -> None:
    stage = Stage()
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.offset(Q, 40, stored=False)
    assert [commit.offset for commit in stage.said(Commit)] == [40]


def test_an_offset_out_of_range_goes_where_the_broker_says() -> None:
    stage = Stage().own(Q, offset=10)
    generation = stage.said(Pull)[0].generation
    stage.step(Pulled(Q, generation, PullOutcome.MOVED, 50))
    assert stage.said(Pull)[-1].offset == 50
    assert stage.said(Commit)[-1].offset == 50
    stage.step(Pulled(Q, generation, PullOutcome.MOVED, 3))
    assert (stage.said(Pull)[-1].offset, stage.said(Pull)[-1].generation > generation) == (3, True)
    stage.confirmed(Q)
    stage.wait(1_000)
    assert stage.said(Commit)[-1].offset == 3


def test_a_reset_makes_running_handlers_strangers() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1)
    first = stage.generation(Q)
    stage.step(OffsetReset(Q, 100))
    assert stage.said(Pull)[-1].offset == 100
    assert stage.said(Commit)[-1].offset == 100
    stage.step(Handled(Q, first, [0, 1]))
    assert stage.reports()[-1] == "stranger"
    assert len(stage.said(Commit)) == 1


def test_a_commit_that_failed_is_said_again() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    stage.step(CommitFailed(Q, 1))
    stage.wait(1_000)
    assert [commit.offset for commit in stage.said(Commit)] == [1, 1]
    stage.plan()
    stage.step(CommitFailed(Q, 1))
    assert stage.state() is State.COMMITTING
    stage.step(CommitFailed(Q, 1))
    stage.wait(1_000)
    stage.confirmed(Q)
    assert stage.state() is State.RELEASING


def test_nothing_is_committed_on_a_line_that_was_just_cut() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1, 2)
    stage.handled(Q, 0)
    stage.confirmed(Q)
    stage.handled(Q, 1)
    stage.now_ms += 1_000
    stage.views.hand_plan = ()
    stage.actions.clear()
    stage.cut()
    assert not stage.said(Commit)
    assert stage.state() is State.UNSURE


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_message_goes_back_and_counts_when_it_is_there() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, failed=(0,), level=2)
    (back,) = stage.said(SendBack)
    assert (back.offset, back.message, back.delay_level) == (0, "m0", 2)
    assert not stage.said(Commit)
    stage.step(SentBack(Q, back.generation, 0))
    assert stage.said(Commit)[-1].offset == 1


def test_a_message_that_cannot_go_back_is_tried_here_again() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, failed=(0,))
    stage.step(SendBackFailed(Q, stage.generation(Q), 0))
    stage.wait(4_900)
    assert len(stage.said(Handle)) == 1
    stage.wait(100)
    assert [(handle.offsets[0], handle.attempt) for handle in stage.said(Handle)] == [(0, 0), (0, 1)]


def test_a_message_that_cannot_go_back_while_draining_is_left_to_the_next_owner() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, 1)
    stage.plan()
    stage.handled(Q, failed=(0,))
    assert stage.state() is State.DRAINING
    stage.step(SendBackFailed(Q, stage.generation(Q), 0))
    assert stage.state() is State.RELEASING
    assert not stage.said(Commit)


def test_what_fails_while_it_is_unsure_goes_back_once_it_is_proven() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.cut()
    stage.handled(Q, failed=(0,))
    assert not stage.said(SendBack)
    stage.connect()
    stage.grant(Q)
    stage.offset(Q)
    assert len(stage.said(SendBack)) == 1


def test_a_message_too_long_in_its_handler_goes_back_and_comes_again() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.wait(60_000)
    stage.pulled(Q)
    for _ in range(14):
        stage.wait(60_000)
        stage.pulled(Q)
    (back,) = stage.said(SendBack)
    assert (back.offset, back.delay_level) == (0, 3)
    stage.step(SentBack(Q, back.generation, 0))
    assert stage.said(Commit)[-1].offset == 1
    stage.handled(Q, 0)
    assert stage.reports()[-1] == "stranger"


# -- in order ---------------------------------------------------------------------------------------------------------


def test_in_order_a_queue_has_one_handler_at_a_time() -> None:
    stage = Stage(mode=Mode.ORDERLY).own(Q, Q1)
    stage.pulled(Q, 0, 1, 2)
    stage.pulled(Q1, 7)
    assert _started(stage) == [(0, 0), (1, 7)]
    stage.handled(Q, 0)
    assert _started(stage) == [(0, 0), (1, 7), (0, 1)]


def test_in_order_a_failure_holds_up_those_behind_it() -> None:
    stage = Stage(mode=Mode.ORDERLY, chunk=3).own(Q)
    stage.pulled(Q, 0, 1, 2, 3)
    generation = stage.generation(Q)
    stage.step(Handled(Q, generation, [0], [1]))
    assert not stage.member.may_start(Q, generation, stage.now_ms)
    stage.step(Handled(Q, generation, (), skipped=[2]))
    stage.wait(999)
    assert len(stage.said(Handle)) == 1
    stage.wait(1)
    again = stage.said(Handle)[-1]
    assert (list(again.offsets), again.attempt) == ([1], 1)
    stage.handled(Q, 1)
    assert list(stage.said(Handle)[-1].offsets) == [2]
    stage.handled(Q, 2)
    assert list(stage.said(Handle)[-1].offsets) == [3]


def test_in_order_a_message_that_fails_too_often_goes_to_the_dead_letters() -> None:
    stage = Stage(mode=Mode.ORDERLY, most_tries=2).own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, failed=(0,))
    stage.wait(1_000)
    stage.handled(Q, failed=(0,))
    (back,) = stage.said(SendBack)
    assert back.delay_level == -1
    stage.wait(2_000)
    assert _started(stage) == [(0, 0), (0, 0)]
    stage.step(SendBackFailed(Q, back.generation, 0))
    stage.wait(1_000)
    stage.handled(Q, failed=(0,))
    stage.step(SentBack(Q, back.generation, 0))
    assert _started(stage) == [(0, 0), (0, 0), (0, 0), (0, 1)]


def test_in_order_without_a_limit_a_message_is_tried_for_ever() -> None:
    stage = Stage(mode=Mode.ORDERLY, most_tries=-1).own(Q)
    stage.pulled(Q, 0)
    for _ in range(40):
        stage.handled(Q, failed=(0,))
        stage.wait(1_000)
    assert not stage.said(SendBack)
    assert stage.said(Handle)[-1].attempt == 40


# -- broadcasting -----------------------------------------------------------------------------------------------------


def test_who_broadcasts_locks_nothing_and_drops_failures() -> None:
    stage = Stage(mode=Mode.BROADCAST).own(Q)
    stage.pulled(Q, 0, 1)
    stage.handled(Q, failed=(0,))
    assert stage.reports()[-1] == "dropped"
    assert stage.said(Commit)[-1].offset == 1
    stage.cut()
    assert stage.state() is State.UNSURE
    stage.connect()
    assert stage.state() is State.OWNED
    stage.pulled(Q, 1)
    assert stage.said(Pull)[-1].offset == 2
    stage.plan()
    stage.handled(Q, 1)
    stage.confirmed(Q)
    stage.confirmed(Q)
    assert stage.state() is State.ABSENT
