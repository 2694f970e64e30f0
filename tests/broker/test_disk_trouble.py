"""What goes wrong with a broker's disk is told: in its log, once, and to all who ask how it is."""

import pytest
from tests.broker.desk import Desk, message
from tests.broker.reader import make_topic

from steelyard.broker.measuring import measure
from steelyard.broker.options import BrokerOptions
from steelyard.client.admin.broker_reports import Reports, read_reports
from steelyard.model.measures import Sample
from steelyard.sim.disk import Fault, FaultKind
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode

_NOT_NOW = ResponseCode.SERVICE_NOT_AVAILABLE


def _desk(flush: str = "async") -> Desk:
    desk = Desk(BrokerOptions(flush=flush), segment_bytes=4096)
    make_topic(desk, "orders", queues=1)
    return desk


def _reports(desk: Desk) -> Reports:
    """Return what the broker tells of its disk and its log."""
    answer = desk.ask(Code.GET_BROKER_RUNTIME_INFO)
    return read_reports(decode_body(TextTable, answer.body).table)


def _measured(desk: Desk, name: str) -> float:
    (family,) = (each for each in measure(desk.state, desk.now_ms) if each.name == name)
    (sample,) = family.samples
    assert isinstance(sample, Sample)
    return sample.value


def test_lost_messages_are_told_at_the_start_and_to_all_who_ask() -> None:
    desk = _desk()
    for number in range(10):
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"%d" % number).code == 0
    assert desk.state.notes == []
    left = desk.disk.crash()
    left.open("commitlog/00000000000000000000").write(200, b"\xff" * 300)
    desk.reopen(left)
    lost = 10 - len(desk.topic("orders"))
    assert 0 < lost < 10
    (note,) = desk.state.notes
    assert f"{lost} messages are lost" in note
    assert "commitlog/00000000000000000000" in note
    assert f"{lost} messages are lost" in (_reports(desk).loss or "")
    assert _measured(desk, "steelyard_corrupt_records_total") == lost


def test_messages_that_are_found_to_be_lost_later_are_told_now_and_then() -> None:
    desk = _desk()
    for number in range(12):
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"%d" % number).code == 0
    desk.restart()
    desk.disk.open("commitlog/00000000000000000000").write(200, b"\xff" * 300)
    assert desk.state.notes == [], "what was closed in order is not read by the start"
    lost = 12 - len(desk.topic("orders"))
    desk.advance(1_000)
    (note,) = desk.state.notes
    assert f"{lost} messages are lost" in note
    desk.advance(100_000, step_ms=1_000)
    assert desk.state.notes == [note], "once is enough"


def test_a_torn_tail_that_nobody_was_told_of_is_no_loss() -> None:
    desk = _desk()
    desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"whole")
    left = desk.disk.crash()
    left.open("commitlog/00000000000000000000").write(desk.state.store.end, b"half a record")
    desk.reopen(left)
    assert desk.state.notes == []
    assert _reports(desk).loss is None


@pytest.mark.parametrize("kind", ["error", "no_space"])
def test_writes_that_fail_are_told_when_they_begin_to_and_when_they_work_again(kind: FaultKind) -> None:
    desk = _desk()
    desk.disk.faults = [Fault("write", desk.disk.calls["write"] + nth, kind) for nth in range(1, 200)]
    for _ in range(20):
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        desk.advance(1_000)
    (note,) = desk.state.notes
    assert "storing messages fails" in note
    assert "commitlog/00000000000000000000" in note
    assert "commitlog/00000000000000000000" in (_reports(desk).refusal or "")
    assert _measured(desk, "steelyard_storage_writable") == 0
    assert _measured(desk, "steelyard_storage_failures_total") >= 20
    desk.disk.faults.clear()
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"after").code == 0
    assert "storing messages works again, after 20.0 s" in desk.state.notes[1]
    assert _reports(desk).refusal is None
    assert _measured(desk, "steelyard_storage_writable") == 1


def test_a_disk_that_fails_every_other_time_is_told_of_once_a_minute() -> None:
    desk = _desk()
    for _ in range(59):
        desk.disk.fail_next("write", "no_space")
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"kept").code == 0
        desk.advance(1_000)
    assert len(desk.state.notes) == 2
    for _ in range(3):
        desk.disk.fail_next("write", "no_space")
        assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        desk.advance(1_000)
    assert len(desk.state.notes) == 3, "what goes on failing is told once the minute is over"


def test_a_sync_that_failed_is_told_once_and_for_good() -> None:
    desk = _desk("sync")
    desk.disk.fail_next("fsync", "error")
    opaque = desk.say(Code.SEND_MESSAGE_V2, message("orders"), b"unsure")
    desk.sync()
    answer = desk.answer(opaque)
    assert answer is not None
    assert answer.code == _NOT_NOW
    desk.advance(100_000, step_ms=1_000)
    (note,) = desk.state.notes
    assert "no more messages are taken: a sync failed" in note
    assert "restart the broker" in note
    assert "a sync failed" in (_reports(desk).refusal or "")
    assert _measured(desk, "steelyard_storage_writable") == 0
