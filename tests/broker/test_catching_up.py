"""Questions by key wait for an index that is behind, are answered exactly, and stop nobody else."""

from tests.broker.desk import START_MS, Desk, message

from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.record import read_records


def _send(desk: Desk, count: int) -> None:
    for number in range(count):
        desk.say(Code.SEND_MESSAGE_V2, message(properties=f"KEYS\x01k{number}\x02"), b"%d" % number, flush=False)
    desk.flush()
    desk.sent_to()


def _ask(desk: Desk, key: str) -> int:
    return desk.say(Code.QUERY_MESSAGE, QueryMessages("orders", key, 32, 0, START_MS + 1_000_000))


def _bodies(answer: Command | None) -> list[bytes]:
    assert answer is not None
    return [record.body for record in read_records(answer.body)]


def test_a_question_is_answered_at_once_when_the_index_is_near() -> None:
    desk = Desk()
    _send(desk, 100)
    assert _bodies(desk.answer(_ask(desk, "k42"))) == [b"42"]


def test_a_question_waits_while_the_index_is_far_behind_and_others_do_not() -> None:
    desk = Desk(segment_bytes=1 << 22)
    _send(desk, 9_000)
    first, last = _ask(desk, "k0"), _ask(desk, "k8999")
    assert desk.answer(first) is None
    assert desk.ask(Code.SEND_MESSAGE_V2, message(), b"x").code == 0
    desk.advance(300)
    assert _bodies(desk.answer(first)) == [b"0"]
    assert _bodies(desk.answer(last)) == [b"8999"]


def test_without_a_question_the_index_follows_by_itself() -> None:
    desk = Desk()
    _send(desk, 500)
    desk.advance(500)
    assert desk.state.store.lookup.follow(0) is False
    assert desk.state.store.lookup.follow(1) is True


def test_too_many_questions_are_refused_and_those_before_are_answered() -> None:
    desk = Desk(segment_bytes=1 << 22)
    _send(desk, 9_000)
    waiting = [_ask(desk, "k1") for _ in range(1_000)]
    refused = desk.answer(_ask(desk, "k1"))
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY
    desk.advance(300)
    assert all(_bodies(desk.answer(opaque)) == [b"1"] for opaque in waiting)
