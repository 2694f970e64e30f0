"""Disk problems of a broker are reported: in its log, once, and in its runtime table and metrics."""

import pytest

from simulator.disk import DiskFault, DiskFaultKind
from steelyard.broker.metrics import collect_metrics
from steelyard.broker.options import BrokerOptions
from steelyard.client.admin.brokers import BrokerReports, parse_reports
from steelyard.metrics.families import Sample
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.pull_requests import make_topic

_NOT_NOW = ResponseCode.SERVICE_NOT_AVAILABLE


def _harness(flush: str = "async") -> BrokerHarness:
    harness = BrokerHarness(BrokerOptions(flush=flush), segment_bytes=4096)
    make_topic(harness, "orders", queues=1)
    return harness


def _reports(harness: BrokerHarness) -> BrokerReports:
    """Return what the broker tells of its disk and its log."""
    answer = harness.request(Code.GET_BROKER_RUNTIME_INFO)
    return parse_reports(decode_body(KVTable, answer.body).table)


def _measured(harness: BrokerHarness, name: str) -> float:
    (family,) = (each for each in collect_metrics(harness.state, harness.now_ms) if each.name == name)
    (sample,) = family.samples
    assert isinstance(sample, Sample)
    return sample.value


def test_lost_messages_are_told_at_the_start_and_to_all_who_ask() -> None:
    harness = _harness()
    for number in range(10):
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"%d" % number).code == 0
    assert harness.state.warnings == []
    left = harness.disk.crash()
    left.open("commitlog/00000000000000000000").write(200, b"\xff" * 300)
    harness.reopen(left)
    lost = 10 - len(harness.topic("orders"))
    assert 0 < lost < 10
    (note,) = harness.state.warnings
    assert f"{lost} messages are lost" in note
    assert "commitlog/00000000000000000000" in note
    assert f"{lost} messages are lost" in (_reports(harness).loss or "")
    assert _measured(harness, "steelyard_corrupt_records_total") == lost


def test_messages_that_are_found_to_be_lost_later_are_reported_now_and_then() -> None:
    harness = _harness()
    for number in range(12):
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"%d" % number).code == 0
    harness.restart()
    harness.disk.open("commitlog/00000000000000000000").write(200, b"\xff" * 300)
    assert harness.state.warnings == [], "what was closed in order is not read by the start"
    lost = 12 - len(harness.topic("orders"))
    harness.advance(1_000)
    (note,) = harness.state.warnings
    assert f"{lost} messages are lost" in note
    harness.advance(100_000, step_ms=1_000)
    assert harness.state.warnings == [note], "once is enough"


def test_a_torn_tail_that_nobody_was_reported_is_no_loss() -> None:
    harness = _harness()
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"whole")
    left = harness.disk.crash()
    left.open("commitlog/00000000000000000000").write(harness.state.store.end, b"half a record")
    harness.reopen(left)
    assert harness.state.warnings == []
    assert _reports(harness).loss is None


@pytest.mark.parametrize("kind", ["error", "no_space"])
def test_writes_that_fail_are_reported_when_they_begin_to_and_when_they_work_again(kind: DiskFaultKind) -> None:
    harness = _harness()
    harness.disk.faults = [DiskFault("write", harness.disk.calls["write"] + nth, kind) for nth in range(1, 200)]
    for _ in range(20):
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        harness.advance(1_000)
    (note,) = harness.state.warnings
    assert "storing messages fails" in note
    assert "commitlog/00000000000000000000" in note
    assert "commitlog/00000000000000000000" in (_reports(harness).refusal or "")
    assert _measured(harness, "steelyard_storage_writable") == 0
    assert _measured(harness, "steelyard_storage_failures_total") >= 20
    harness.disk.faults.clear()
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"after").code == 0
    assert "storing messages works again, after 20.0 s" in harness.state.warnings[1]
    assert _reports(harness).refusal is None
    assert _measured(harness, "steelyard_storage_writable") == 1


def test_a_disk_that_fails_every_other_time_is_reported_once_a_minute() -> None:
    harness = _harness()
    for _ in range(59):
        harness.disk.fail_next("write", "no_space")
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"kept").code == 0
        harness.advance(1_000)
    assert len(harness.state.warnings) == 2
    for _ in range(3):
        harness.disk.fail_next("write", "no_space")
        assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"lost").code == _NOT_NOW
        harness.advance(1_000)
    assert len(harness.state.warnings) == 3, "what goes on failing is told once the minute is over"


def test_a_sync_that_failed_is_reported_once_and_for_good() -> None:
    harness = _harness("sync")
    harness.disk.fail_next("fsync", "error")
    opaque = harness.send(Code.SEND_MESSAGE_V2, message("orders"), b"unsure")
    harness.sync()
    answer = harness.pop_response(opaque)
    assert answer is not None
    assert answer.code == _NOT_NOW
    harness.advance(100_000, step_ms=1_000)
    (note,) = harness.state.warnings
    assert "no more messages are accepted: a sync failed" in note
    assert "restart the broker" in note
    assert "a sync failed" in (_reports(harness).refusal or "")
    assert _measured(harness, "steelyard_storage_writable") == 0
