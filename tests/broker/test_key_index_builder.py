"""Queries by key wait for an index that is behind, are answered exactly, and block nothing else."""

from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.record import decode_records
from tests.broker.broker_harness import START_MS, BrokerHarness, message


def _send(harness: BrokerHarness, count: int) -> None:
    for number in range(count):
        harness.send(Code.SEND_MESSAGE_V2, message(properties=f"KEYS\x01k{number}\x02"), b"%d" % number, flush=False)
    harness.flush()
    harness.sent_to()


def _ask(harness: BrokerHarness, key: str) -> int:
    return harness.send(Code.QUERY_MESSAGE, QueryMessages("orders", key, 32, 0, START_MS + 1_000_000))


def _bodies(answer: Command | None) -> list[bytes]:
    assert answer is not None
    return [record.body for record in decode_records(answer.body)]


def test_a_question_is_answered_at_once_when_the_index_is_near() -> None:
    harness = BrokerHarness()
    _send(harness, 100)
    assert _bodies(harness.pop_response(_ask(harness, "k42"))) == [b"42"]


def test_a_question_waits_while_the_index_is_far_behind_and_others_do_not() -> None:
    harness = BrokerHarness(segment_bytes=1 << 22)
    _send(harness, 9_000)
    first, last = _ask(harness, "k0"), _ask(harness, "k8999")
    assert harness.pop_response(first) is None
    assert harness.request(Code.SEND_MESSAGE_V2, message(), b"x").code == 0
    harness.advance(300)
    assert _bodies(harness.pop_response(first)) == [b"0"]
    assert _bodies(harness.pop_response(last)) == [b"8999"]


def test_without_a_question_the_index_follows_by_itself() -> None:
    harness = BrokerHarness()
    _send(harness, 500)
    harness.advance(500)
    assert harness.state.store.lookup.build_key_index(0) is False
    assert harness.state.store.lookup.build_key_index(1) is True


def test_too_many_questions_are_refused_and_those_before_are_answered() -> None:
    harness = BrokerHarness(segment_bytes=1 << 22)
    _send(harness, 9_000)
    waiting = [_ask(harness, "k1") for _ in range(1_000)]
    refused = harness.pop_response(_ask(harness, "k1"))
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY
    harness.advance(300)
    assert all(_bodies(harness.pop_response(opaque)) == [b"1"] for opaque in waiting)
