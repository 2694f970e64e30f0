"""A broker on a disk that fails: what it acked is never lost, whom it refuses it tells, and it recovers with the disk.

One fault strikes at every place of a life in turn, or some of them; then single stories, each about one way to lose.
"""

import pytest
from tests.broker.desk import Desk, message
from tests.broker.life import Life
from tests.broker.reader import bodies, make_topic, pull, pull_header
from tests.fuzzing import rounds

from steelyard.broker.options import BrokerOptions
from steelyard.sim.disk import Fault, FaultKind, Operation
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.headers.send import EndTransaction, SendAnswer
from steelyard.wire.message_ids import read_offset_id

_STEPS = 60
_OPERATIONS: tuple[Operation, ...] = ("write", "fsync", "open", "rename", "truncate", "sync_folder", "remove")
_KINDS: tuple[FaultKind, ...] = ("error", "no_space", "short_write", "crash_before", "crash_midway", "crash_after")
_NOT_NOW = ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_life_on_a_good_disk_keeps_every_promise() -> None:
    for seed in range(rounds() // 100):
        for flush in ("async", "sync"):
            life = Life(seed, flush)
            life.run(_STEPS)
            assert not life.book.refusals
            assert life.book.places


@pytest.mark.thorough
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("operation", _OPERATIONS)
@pytest.mark.parametrize("flush", ["async", "sync"])
def test_a_life_on_a_failing_disk_keeps_every_promise(flush: str, operation: Operation, kind: FaultKind) -> None:
    for seed in range(max(3, rounds() // 300)):
        life = Life(seed, flush)
        calls = life.disk.calls[operation]
        life.disk.faults = [Fault(operation, calls + 1 + seed * seed, kind)]
        life.run(_STEPS)


@pytest.mark.parametrize("kind", ["error", "no_space", "short_write"])
def test_a_disk_that_fails_for_a_while_costs_refusals_and_nothing_else(kind: FaultKind) -> None:
    for seed in range(max(3, rounds() // 300)):
        life = Life(seed)
        calls = life.disk.calls["write"]
        life.disk.faults = [Fault("write", calls + nth, kind) for nth in range(10, 60)]
        life.run(_STEPS)
        assert life.desk.state.store.refusal is None


def _desk(flush: str = "async") -> Desk:
    desk = Desk(BrokerOptions(flush=flush), segment_bytes=4096)
    make_topic(desk, "orders", queues=1)
    return desk


def _sent(desk: Desk, body: bytes) -> int:
    """Send a message and do not wait; return the number of the request."""
    return desk.say(Code.SEND_MESSAGE_V2, message("orders"), body, flush=False)


def _codes(desk: Desk, *opaques: int) -> list[int | None]:
    answers = [desk.answer(opaque) for opaque in opaques]
    return [None if answer is None else answer.code for answer in answers]


@pytest.mark.parametrize("kind", ["error", "no_space"])
def test_a_send_that_is_not_written_is_refused_and_the_next_one_is_taken(kind: FaultKind) -> None:
    desk = _desk()
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"before").code == 0
    desk.disk.fail_next("write", kind)
    refused = desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"lost")
    assert refused.code == _NOT_NOW
    assert "not stored" in (refused.remark or "")
    after = desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"after")
    assert (after.code, after.header(SendAnswer).queue_offset) == (0, 1)
    desk.crash()
    assert bodies(pull(desk, pull_header())) == [b"before", b"after"]


def test_all_sends_of_one_failed_write_are_refused_also_if_a_topic_is_deleted_in_between() -> None:
    desk = _desk()
    desk.ask(Code.SEND_MESSAGE_V2, message("other"), b"x")
    first = _sent(desk, b"first")
    # To delete writes the log: what fails then must not be taken for stored when the next message gets its place.
    desk.disk.fail_next("write", "error")
    deletion = desk.say(Code.DELETE_TOPIC_IN_BROKER, {"topic": "other"}, flush=False)
    second = _sent(desk, b"other")
    desk.flush()
    assert _codes(desk, first, deletion, second) == [_NOT_NOW, 0, 0]
    assert [record.body for record in desk.queue("orders")] == [b"other"]


def test_under_sync_flush_nobody_is_acked_after_a_failed_sync() -> None:
    desk = _desk("sync")
    safe = _sent(desk, b"safe")
    desk.flush()
    assert _codes(desk, safe) == [None]
    desk.sync()
    unsafe = _sent(desk, b"unsafe")
    desk.flush()
    desk.disk.fail_next("fsync", "error")
    desk.sync()
    assert _codes(desk, safe, unsafe) == [0, _NOT_NOW]
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"later").code == _NOT_NOW
    assert not desk.broker.wants_sync(desk.now_ms + 10_000)
    assert bodies(pull(desk, pull_header(most=1))) == [b"safe"]
    desk.lose_power()
    assert bodies(pull(desk, pull_header())) == [b"safe"]
    again = _sent(desk, b"again")
    desk.flush()
    desk.sync()
    assert _codes(desk, again) == [0]


def test_who_waits_for_a_sync_hears_at_once_that_a_new_log_file_could_not_be_made_safe() -> None:
    desk = _desk("sync")
    waiting = _sent(desk, b"x" * 3_000)
    desk.flush()
    desk.disk.fail_next("fsync", "error")
    first_of_next_file = _sent(desk, b"y" * 3_000)
    desk.flush()
    assert desk.state.store.refusal is not None
    assert _codes(desk, waiting, first_of_next_file) == [_NOT_NOW, _NOT_NOW]


def test_under_async_flush_a_failed_sync_takes_nothing_back_and_lets_nothing_in() -> None:
    desk = _desk()
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"acked").code == 0
    desk.disk.fail_next("fsync", "error")
    desk.sync()
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"later").code == _NOT_NOW
    assert bodies(pull(desk, pull_header())) == [b"acked"]
    desk.crash()
    assert bodies(pull(desk, pull_header())) == [b"acked"]
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"again").code == 0


def test_a_sync_that_takes_too_long_is_told_as_stored_but_late() -> None:
    desk = _desk("sync")
    late = _sent(desk, b"late")
    desk.flush()
    job = desk.broker.begin_sync(desk.now_ms)
    desk.advance(4_900)
    assert _codes(desk, late) == [None]
    desk.advance(200)
    assert _codes(desk, late) == [ResponseCode.FLUSH_DISK_TIMEOUT]
    job.run()
    assert not desk.broker.end_sync(job)
    desk.lose_power()
    assert bodies(pull(desk, pull_header())) == [b"late"]


def test_a_commit_whose_message_got_into_the_log_and_whose_end_did_not_is_not_repeated() -> None:
    for filler in range(200):
        # Where the log stands decides whether the two lie in different files: at some place they do.
        fresh = _desk()
        fresh.ask(Code.SEND_MESSAGE_V2, message("orders"), b"x" * 15 * filler)
        text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01h\x02"
        half = fresh.ask(Code.SEND_MESSAGE_V2, message("orders", text, sys_flag=4), b"half").header(SendAnswer)
        position = read_offset_id(half.msg_id)[1]
        end = EndTransaction("shop", half.queue_offset, position, 8, "h", False)
        fresh.disk.faults = [Fault("write", fresh.disk.calls["write"] + 2, "error")]
        fresh.ask(Code.END_TRANSACTION, end)
        fresh.disk.faults.clear()
        assert fresh.ask(Code.END_TRANSACTION, end).code == 0
        assert [record.body for record in fresh.topic("orders")][1:] == [b"half"], filler


def test_a_table_that_cannot_be_saved_is_told_once_and_saved_when_the_disk_is_well() -> None:
    desk = _desk()
    desk.save()
    desk.state.notes.clear()
    desk.disk.faults = [Fault("write", desk.disk.calls["write"] + nth, "no_space") for nth in range(1, 200)]
    desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    for _ in range(100):
        desk.advance(200)
        desk.save()
    (note,) = (note for note in desk.state.notes if "subscriptionGroup" in note)
    assert "saving config/subscriptionGroup.json fails" in note
    desk.disk.faults.clear()
    desk.advance(6_000)
    desk.save()
    _, note = (note for note in desk.state.notes if "subscriptionGroup" in note)
    assert "saving config/subscriptionGroup.json works again" in note
    desk.crash()
    assert desk.state.groups.get("billing") is not None


def test_old_log_files_that_cannot_be_removed_stop_nothing() -> None:
    desk = _desk()
    desk.state.store.keep_for(1_000)
    for _ in range(4):
        desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"x" * 3_000)
    desk.sync()
    desk.disk.fail_next("remove", "error")
    desk.advance(30_000, step_ms=1_000)
    assert any("removing old log files fails" in note for note in desk.state.notes)
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"after").code == 0
    assert desk.state.store.start > 0
