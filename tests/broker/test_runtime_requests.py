"""The runtime table, under every name that Apache's brokers send and Apache's tools read."""

import pytest

from simulator.disk import SimulatedDisk
from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.bodies.stats import REPORT_NAME, BrokerReport, RecoveryReport
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.frames import FrameDecoder
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.golden_frames import golden_frames

# Of one machine, or of one state of it.
_PLACES = "commitLogDiskRatio_/"


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def runtime(harness: BrokerHarness) -> dict[str, str]:
    return dict(decode_body(KVTable, harness.request(Code.GET_BROKER_RUNTIME_INFO).body).table)


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_every_name_that_apache_tells_is_reported(harness: BrokerHarness, release: str) -> None:
    (frame,) = (
        each.frame
        for each in golden_frames()
        if each.release == release and each.request_code == Code.GET_BROKER_RUNTIME_INFO and each.is_answer
    )
    (answer,) = FrameDecoder().feed(frame)
    theirs = decode_body(KVTable, answer.body).table
    names = {name for name in theirs if not name.startswith(_PLACES)} - {"scheduleMessageOffset_1"}
    ours = runtime(harness)
    assert names - ours.keys() == set()
    # What begins with a number there begins with one here: tools read the first of several.
    for name in names:
        assert _is_number(ours[name]) or not _is_number(theirs[name]), name


def _is_number(text: str) -> bool:
    try:
        float(text.partition(" ")[0])
    except ValueError:
        return False
    return True


def test_speeds_are_three_numbers_each(harness: BrokerHarness) -> None:
    for _ in range(20):
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    harness.state.traffic.record_pulled("billing", "orders", 10, 1_000)
    harness.state.traffic.record_empty_pull()
    harness.advance(10_000)
    reported = runtime(harness)
    for name, first in (
        ("putTps", 2),
        ("getFoundTps", 0.1),
        ("getMissTps", 0.1),
        ("getTotalTps", 0.2),
        ("getTransferredTps", 1),
        ("getTransferedTps", 1),
    ):
        speeds = [float(number) for number in reported[name].split(" ")]
        assert len(speeds) == 3
        assert speeds[0] == pytest.approx(first), name


def test_what_was_stored_is_reported(harness: BrokerHarness) -> None:
    empty = runtime(harness)
    assert (empty["earliestMessageTimeStamp"], empty["putMessageTimesTotal"], empty["commitLogMaxOffset"]) == (
        "-1",
        "0",
        "0",
    )
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body", now_ms=START_MS + 5_000)
    harness.now_ms = START_MS + 96_000
    reported = runtime(harness)
    assert reported["earliestMessageTimeStamp"] == str(START_MS + 5_000)
    assert reported["putMessageTimesTotal"] == reported["msgPutTotalTodayNow"] == "1"
    assert reported["putMessageSizeTotal"] == reported["commitLogMaxOffset"] == str(harness.state.store.end)
    assert float(reported["putMessageAverageSize"]) == harness.state.store.end
    assert reported["runtime"] == "[ 0 days, 0 hours, 1 minutes, 36 seconds ]"
    assert reported["bootTimestamp"] == str(START_MS)
    assert reported["remainHowManyDataToFlush"].endswith(" B")
    assert 0 <= float(reported["commitLogDiskRatio"]) < 1


def test_the_release_is_reported(harness: BrokerHarness) -> None:
    reported = runtime(harness)
    assert (reported["brokerVersion"], reported["brokerVersionDesc"], reported["brokerActive"]) == (
        "513",
        "V5_5_0",
        "true",
    )


def test_delay_levels_that_have_messages_are_reported(harness: BrokerHarness) -> None:
    harness.state.store.append(
        b"SCHEDULE_TOPIC_XXXX",
        2,
        b"x",
        b"DELAY\x013\x02",
        born_ms=1,
        born_host=harness.peer.born_host,
        stored_ms=START_MS,
    )
    harness.flush()
    reported = runtime(harness)
    assert reported["scheduleMessageOffset_3"] == "0,1"
    assert "scheduleMessageOffset_1" not in reported


# -- what ours are told beyond Apache ----------------------------------------------------------------------------------


def report(harness: BrokerHarness) -> BrokerReport:
    return decode_body(BrokerReport, runtime(harness)[REPORT_NAME].encode())


def test_tools_of_java_are_told_no_more_than_java_tells(harness: BrokerHarness) -> None:
    answer = harness.request(Code.GET_BROKER_RUNTIME_INFO, language="JAVA")
    assert REPORT_NAME not in decode_body(KVTable, answer.body).table


def test_disk_and_flushing_are_reported_in_whole_numbers() -> None:
    harness = BrokerHarness(BrokerOptions(flush="async", flush_interval_ms=700), disk=SimulatedDisk(capacity=1 << 22))
    empty = report(harness)
    assert (empty.disk_bytes, empty.log_bytes, empty.log_files) == (1 << 22, 0, 0)
    assert (empty.flush, empty.flush_interval_ms, empty.unflushed_bytes, empty.flush_last_us) == ("async", 700, 0, None)
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    harness.state.last_sync_ms = 1.25
    filled = report(harness)
    assert filled.log_files == 1
    assert filled.log_bytes == filled.unflushed_bytes == harness.state.store.end > 0
    assert filled.flush_last_us == 1_250
    assert 0 < (filled.disk_free_bytes or 0) < (empty.disk_free_bytes or 0)


def test_a_disk_is_as_full_as_all_that_lies_on_it() -> None:
    harness = BrokerHarness(disk=SimulatedDisk(capacity=1 << 22))
    harness.disk.open("others", create=True).write(0, bytes(1 << 21))
    assert float(runtime(harness)["commitLogDiskRatio"]) >= 0.5


def test_the_last_start_is_reported() -> None:
    harness = BrokerHarness()
    assert report(harness).recovery == RecoveryReport(found="nothing")
    for _ in range(3):
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    left, end = harness.disk.crash(), harness.state.store.end
    left.open("commitlog/00000000000000000000").write(end, b"torn")
    left.open("commitlog/00000000000000000000").write(50, b"\xff\xff")
    again = BrokerHarness(disk=left)
    again.state.open_duration_ms = 12
    reported = report(again)
    assert reported.recovery == RecoveryReport(
        found="unclosed", records=2, read_bytes=end, cut_bytes=4, damages=1, took_ms=12
    )
    assert reported.damages == 2
    assert [each.what for each in reported.damage or ()] == ["damaged", "cut off"]
    assert reported.refusal is None


def test_a_broker_that_takes_no_messages_gives_the_reason(harness: BrokerHarness) -> None:
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    harness.disk.fail_next("fsync", "error")
    job = harness.broker.begin_sync(harness.now_ms)
    job.run()
    harness.broker.end_sync(job)
    assert "a sync failed" in (report(harness).refusal or "")
