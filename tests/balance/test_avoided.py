"""Messages that were in hand when their queue had to go, and were finished and committed before that, are counted."""

from tests.balance.stage import Q1, Q, Stage

from steelyard.balance.actions import Heartbeat, Unregister
from steelyard.balance.events import LeaveAsked
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode


def _give_up(stage: Stage) -> None:
    """Let the last commit be stored and the lock go."""
    while stage.state() is not State.RELEASING:
        stage.confirmed(Q)
    stage.unlocked(Q)


def test_what_is_finished_while_its_queue_is_given_up_is_counted() -> None:
    stage = Stage(handlers=8).own(Q, Q1)
    stage.pulled(Q, 0, 1, 2)
    stage.handled(Q, 0)
    stage.plan(Q1)
    assert stage.state() is State.DRAINING
    stage.handled(Q, 1)
    stage.handled(Q, 2)
    assert stage.member.avoided == 0
    _give_up(stage)
    assert stage.member.avoided == 2


def test_what_is_behind_a_message_that_comes_again_is_not() -> None:
    stage = Stage(handlers=8, mode=Mode.ORDERLY, chunk=3).own(Q, Q1)
    stage.pulled(Q, 0, 1, 2)
    stage.plan(Q1)
    stage.handled(Q, 0, failed=(1, 2))
    _give_up(stage)
    assert stage.member.avoided == 1


def test_a_queue_that_nobody_works_on_avoids_nothing() -> None:
    stage = Stage().own(Q, Q1)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    stage.plan(Q1)
    _give_up(stage)
    assert stage.member.avoided == 0


def test_its_broker_is_told_with_the_next_heartbeat() -> None:
    stage = Stage(handlers=8).own(Q, Q1)
    stage.pulled(Q, 0)
    stage.plan(Q1)
    stage.handled(Q, 0)
    _give_up(stage)
    stage.wait(30_000)
    assert stage.said(Heartbeat)[-1].avoided == 1


def test_its_broker_is_told_with_the_goodbye() -> None:
    stage = Stage(handlers=8).own(Q)
    stage.pulled(Q, 0)
    stage.step(LeaveAsked(10_000))
    stage.handled(Q, 0)
    _give_up(stage)
    assert [goodbye.avoided for goodbye in stage.said(Unregister)] == [1]
