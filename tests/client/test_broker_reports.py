"""Disk, flushing and the last start of a broker: ours tell it all, Apache's what they print, and nothing is guessed."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.admin.brokers import BrokerRecovery, BrokerReports, FlushStatus, parse_reports
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.bodies.stats import REPORT_NAME
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.frames import FrameDecoder
from tests.golden_frames import golden_frames


def test_a_broker_that_was_killed_tells_what_its_next_start_found(tmp_path: Path) -> None:
    with Cluster(brokers=1, data=tmp_path) as cluster, Admin(cluster.namesrv) as admin:
        first = admin.brokers.describe("broker-0").reports
        assert first.recovery is not None
        assert (first.recovery.found, str(first.recovery)) == ("nothing", "the directory was empty")
        assert first.disk is not None
        assert (first.disk.size_bytes or 0) > (first.disk.free_bytes or 0) > 0
        with Producer(cluster.namesrv) as producer:
            for _ in range(7):
                producer.send(Message("orders", b"x"))
        cluster.kill_broker("broker-0")
        cluster.start_broker("broker-0")
        again = admin.brokers.describe("broker-0").reports
        assert again.recovery is not None
        assert (again.recovery.found, again.recovery.records >= 7) == ("unclosed", True)
        assert again.recovery.took is not None
        assert (again.damages, again.lost, again.refusal) == (0, (), None)
        assert again.disk is not None
        assert again.disk.log_files == 1
        assert again.flushing is not None
        assert (again.flushing.mode, again.flushing.interval_ms) == ("async", 500)


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_of_apache_as_much_is_known_as_it_prints(release: str) -> None:
    (frame,) = (
        each.frame
        for each in golden_frames()
        if each.release == release and each.request_code == Code.GET_BROKER_RUNTIME_INFO and each.is_answer
    )
    (answer,) = FrameDecoder().feed(frame)
    reports = parse_reports(decode_body(KVTable, answer.body).table)
    assert reports.disk is not None
    assert (reports.disk.size_bytes or 0) > (reports.disk.free_bytes or 0) > 0
    assert reports.disk.log_files is None
    assert reports.flushing is not None
    assert reports.flushing == FlushStatus(None, None, reports.flushing.unflushed_bytes)
    assert reports.flushing.unflushed_bytes is not None
    assert (reports.recovery, reports.damages, reports.refusal) == (None, None, None)


def test_a_start_is_reported_in_a_sentence() -> None:
    start = BrokerRecovery("unclosed", 12, 4_096, 40, 1, timedelta(milliseconds=1_260))
    assert str(start) == (
        "the last process did not close it; 12 messages read again in 1.2 s, 40 bytes cut off, 1 damaged place"
    )
    assert str(BrokerRecovery("closed", 0, 0, 0, 0, None)) == "the last process closed it in order"


@given(st.dictionaries(st.sampled_from([REPORT_NAME, "commitLogDirCapacity", "remainHowManyDataToFlush"]), st.text()))
def test_whatever_a_server_says_is_no_error(reported: dict[str, str]) -> None:
    assert isinstance(parse_reports(reported), BrokerReports)


@given(st.text())
def test_a_report_with_numbers_that_cannot_be_is_no_error(digits: str) -> None:
    word = f'{{"recovery":{{"tookMs":9223372036854775807,"found":"{digits}"}},"diskBytes":-1}}'
    assert isinstance(parse_reports({REPORT_NAME: word}), BrokerReports)
