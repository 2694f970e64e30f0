"""A broker on a disk that fails: what it acknowledged is never lost, and it recovers with the disk.

One fault strikes at every place of a life in turn, or some of them; then single stories, each about one way to lose.
"""

import pytest

from simulator.disk import DiskFault, DiskFaultKind, DiskOperation
from steelyard.broker.options import BrokerOptions
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.headers.send import EndTransaction, SendMessageResponse
from steelyard.wire.message_ids import parse_offset_id
from tests.broker.broker_fuzz import BrokerFuzz
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.pull_requests import bodies, make_topic, pull, pull_header
from tests.fuzzing import rounds

_STEPS = 60
_OPERATIONS: tuple[DiskOperation, ...] = ("write", "fsync", "open", "rename", "truncate", "sync_folder", "remove")
_KINDS: tuple[DiskFaultKind, ...] = ("error", "no_space", "short_write", "crash_before", "crash_midway", "crash_after")
_NOT_NOW = ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_run_on_a_good_disk_keeps_every_promise() -> None:
    for seed in range(rounds() // 100):
        for flush in ("async", "sync"):
            lifetime = BrokerFuzz(seed, flush)
            lifetime.run(_STEPS)
            assert not lifetime.book.refusals
            assert lifetime.book.places


@pytest.mark.thorough
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("operation", _OPERATIONS)
@pytest.mark.parametrize("flush", ["async", "sync"])
def test_a_run_on_a_failing_disk_keeps_every_promise(flush: str, operation: DiskOperation, kind: DiskFaultKind) -> None:
    for seed in range(max(3, rounds() // 300)):
        lifetime = BrokerFuzz(seed, flush)
        calls = lifetime.disk.calls[operation]
        lifetime.disk.faults = [DiskFault(operation, calls + 1 + seed * seed, kind)]
        lifetime.run(_STEPS)


@pytest.mark.parametrize("kind", ["error", "no_space", "short_write"])
def test_a_disk_that_fails_for_a_while_costs_refusals_and_nothing_else(kind: DiskFaultKind) -> None:
    for seed in range(max(3, rounds() // 300)):
        lifetime = BrokerFuzz(seed)
        calls = lifetime.disk.calls["write"]
        lifetime.disk.faults = [DiskFault("write", calls + nth, kind) for nth in range(10, 60)]
        lifetime.run(_STEPS)
        assert lifetime.harness.state.store.read_only_reason is None


def _harness(flush: str = "async") -> BrokerHarness:
    harness = BrokerHarness(BrokerOptions(flush=flush), segment_bytes=4096)
    make_topic(harness, "orders", queues=1)
    return harness


def _sent(harness: BrokerHarness, body: bytes) -> int:
    """Send a message and do not wait; return the number of the request."""
    return harness.send(Code.SEND_MESSAGE_V2, message("orders"), body, flush=False)


def _codes(harness: BrokerHarness, *opaques: int) -> list[int | None]:
    answers = [harness.pop_response(opaque) for opaque in opaques]
    return [None if answer is None else answer.code for answer in answers]


@pytest.mark.parametrize("kind", ["error", "no_space"])
def test_a_send_that_is_not_written_is_refused_and_the_next_one_is_taken(kind: DiskFaultKind) -> None:
    harness = _harness()
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"before").code == 0
    harness.disk.fail_next("write", kind)
    refused = harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"lost")
    assert refused.code == _NOT_NOW
    assert "not stored" in (refused.remark or "")
    after = harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"after")
    assert (after.code, after.header(SendMessageResponse).queue_offset) == (0, 1)
    harness.crash()
    assert bodies(pull(harness, pull_header())) == [b"before", b"after"]


def test_all_sends_of_one_failed_write_are_refused_also_if_a_topic_is_deleted_in_between() -> None:
    harness = _harness()
    harness.request(Code.SEND_MESSAGE_V2, message("other"), b"x")
    first = _sent(harness, b"first")
    # To delete writes the log: what fails then must not be taken for stored when the next message gets its place.
    harness.disk.fail_next("write", "error")
    deletion = harness.send(Code.DELETE_TOPIC_IN_BROKER, {"topic": "other"}, flush=False)
    second = _sent(harness, b"other")
    harness.flush()
    assert _codes(harness, first, deletion, second) == [_NOT_NOW, 0, 0]
    assert [record.body for record in harness.queue("orders")] == [b"other"]


def test_under_sync_flush_nobody_is_acked_after_a_failed_sync() -> None:
    harness = _harness("sync")
    safe = _sent(harness, b"safe")
    harness.flush()
    assert _codes(harness, safe) == [None]
    harness.sync()
    unsafe = _sent(harness, b"unsafe")
    harness.flush()
    harness.disk.fail_next("fsync", "error")
    harness.sync()
    assert _codes(harness, safe, unsafe) == [0, _NOT_NOW]
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"later").code == _NOT_NOW
    assert not harness.broker.is_sync_due(harness.now_ms + 10_000)
    assert bodies(pull(harness, pull_header(most=1))) == [b"safe"]
    harness.lose_power()
    assert bodies(pull(harness, pull_header())) == [b"safe"]
    again = _sent(harness, b"again")
    harness.flush()
    harness.sync()
    assert _codes(harness, again) == [0]


def test_who_waits_for_a_sync_hears_at_once_that_a_new_log_file_could_not_be_made_safe() -> None:
    harness = _harness("sync")
    waiting = _sent(harness, b"x" * 3_000)
    harness.flush()
    harness.disk.fail_next("fsync", "error")
    first_of_next_file = _sent(harness, b"y" * 3_000)
    harness.flush()
    assert harness.state.store.read_only_reason is not None
    assert _codes(harness, waiting, first_of_next_file) == [_NOT_NOW, _NOT_NOW]


def test_under_async_flush_a_failed_sync_takes_nothing_back_and_lets_nothing_in() -> None:
    harness = _harness()
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"acked").code == 0
    harness.disk.fail_next("fsync", "error")
    harness.sync()
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"later").code == _NOT_NOW
    assert bodies(pull(harness, pull_header())) == [b"acked"]
    harness.crash()
    assert bodies(pull(harness, pull_header())) == [b"acked"]
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"again").code == 0


def test_a_sync_that_takes_too_long_is_reported_as_stored_but_late() -> None:
    harness = _harness("sync")
    late = _sent(harness, b"late")
    harness.flush()
    job = harness.broker.begin_sync(harness.now_ms)
    harness.advance(4_900)
    assert _codes(harness, late) == [None]
    harness.advance(200)
    assert _codes(harness, late) == [ResponseCode.FLUSH_DISK_TIMEOUT]
    job.run()
    assert not harness.broker.end_sync(job)
    harness.lose_power()
    assert bodies(pull(harness, pull_header())) == [b"late"]


def test_a_commit_whose_message_got_into_the_log_and_whose_end_did_not_is_not_repeated() -> None:
    for filler in range(200):
        # Where the log stands decides whether the two lie in different files: at some place they do.
        fresh = _harness()
        fresh.request(Code.SEND_MESSAGE_V2, message("orders"), b"x" * 15 * filler)
        text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01h\x02"
        half = fresh.request(Code.SEND_MESSAGE_V2, message("orders", text, sys_flag=4), b"half").header(
            SendMessageResponse
        )
        position = parse_offset_id(half.msg_id)[1]
        end = EndTransaction("shop", half.queue_offset, position, 8, "h", False)
        fresh.disk.faults = [DiskFault("write", fresh.disk.calls["write"] + 2, "error")]
        fresh.request(Code.END_TRANSACTION, end)
        fresh.disk.faults.clear()
        assert fresh.request(Code.END_TRANSACTION, end).code == 0
        assert [record.body for record in fresh.topic("orders")][1:] == [b"half"], filler


def test_a_table_that_cannot_be_saved_is_reported_once_and_saved_when_the_disk_is_well() -> None:
    harness = _harness()
    harness.save()
    harness.state.warnings.clear()
    harness.disk.faults = [DiskFault("write", harness.disk.calls["write"] + nth, "no_space") for nth in range(1, 200)]
    harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    for _ in range(100):
        harness.advance(200)
        harness.save()
    (note,) = (note for note in harness.state.warnings if "subscriptionGroup" in note)
    assert "saving config/subscriptionGroup.json fails" in note
    harness.disk.faults.clear()
    harness.advance(6_000)
    harness.save()
    _, note = (note for note in harness.state.warnings if "subscriptionGroup" in note)
    assert "saving config/subscriptionGroup.json works again" in note
    harness.crash()
    assert harness.state.groups.get("billing") is not None


def test_old_log_files_that_cannot_be_removed_stop_nothing() -> None:
    harness = _harness()
    harness.state.store.set_retention(1_000)
    for _ in range(4):
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x" * 3_000)
    harness.sync()
    harness.disk.fail_next("remove", "error")
    harness.advance(30_000, step_ms=1_000)
    assert any("removing old log files fails" in note for note in harness.state.warnings)
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"after").code == 0
    assert harness.state.store.start > 0
