"""A queue that holds too much does not pull, and pulls again when something of it was finished."""

from tests.balance.stage import Q1, Q, Stage

from steelyard.balance.actions import Pull
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.balance.pace import Pace
from steelyard.balance.window import Window
from steelyard.model import Subscription


def _pace(
    mode: Mode = Mode.CONCURRENT,
    *,
    queue_messages: int = 1_000,
    queue_bytes: int = 100 << 20,
    topic_messages: int | None = None,
    topic_bytes: int | None = None,
) -> Pace:
    return Pace(
        MemberOptions(
            "g",
            "m@sy1",
            {"t": Subscription("t")},
            mode=mode,
            queue_messages=queue_messages,
            queue_bytes=queue_bytes,
            topic_messages=topic_messages,
            topic_bytes=topic_bytes,
        )
    )


def _window(*offsets: int, body_bytes: int = 0) -> Window:
    window = Window(0)
    window.add(offsets, offsets[-1] + 1, body_bytes)
    return window


def test_too_many_messages_hold_a_queue_back() -> None:
    pace = _pace(queue_messages=3)
    assert pace.may_pull("t", _window(0, 1, 2))
    assert not pace.may_pull("t", _window(0, 1, 2, 3))


def test_too_many_bytes_hold_a_queue_back() -> None:
    pace = _pace(queue_bytes=100)
    assert pace.may_pull("t", _window(0, body_bytes=100))
    assert not pace.may_pull("t", _window(0, body_bytes=101))


def test_too_wide_a_span_holds_a_queue_back_but_where_order_matters() -> None:
    window = _window(0, 2_001)
    assert not _pace().may_pull("t", window)
    assert _pace(Mode.ORDERLY).may_pull("t", window)


def test_limits_of_a_topic_are_shared_over_the_queues_owned() -> None:
    pace = _pace(topic_messages=10, topic_bytes=1_000)
    pace.note_owned("t", 4)
    assert pace.may_pull("t", _window(0, 1))
    assert not pace.may_pull("t", _window(0, 1, 2))
    assert not pace.may_pull("t", _window(0, body_bytes=251))
    pace.note_owned("t", 1)
    assert pace.may_pull("t", _window(0, 1, 2))
    pace.note_owned("t", 100)
    assert pace.may_pull("t", _window(0))


def test_a_queue_that_was_held_back_pulls_once_something_is_finished() -> None:
    stage = Stage(queue_messages=2).own(Q)
    stage.pulled(Q, 0, 1, 2)
    assert len(stage.said(Pull)) == 1
    stage.wait(10_000)
    assert len(stage.said(Pull)) == 1
    stage.handled(Q, 1)
    assert [pull.offset for pull in stage.said(Pull)] == [0, 3]


def test_a_queue_that_was_held_back_pulls_once_its_topic_has_fewer_owners() -> None:
    stage = Stage(topic_messages=4).own(Q, Q1)
    stage.pulled(Q, 0, 1, 2)
    assert len([pull for pull in stage.said(Pull) if pull.queue == Q]) == 1
    stage.plan(Q)
    assert len([pull for pull in stage.said(Pull) if pull.queue == Q]) == 2
