"""Resets: a group goes on from somewhere else, whatever its members know of it."""

import pytest
from tests.broker.desk import START_MS, Desk
from tests.broker.reader import beat, bodies, make_topic, place, pull, pull_header, put, start_pull

from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.offsets import ResetOffsets
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, QueryOffset, ResetOffset
from steelyard.wire.peers import Peer


@pytest.fixture
def desk() -> Desk:
    """Open a broker with a topic of two queues: five messages in each, one a second; the group read all."""
    found = Desk()
    make_topic(found, queues=2)
    for number in range(5):
        for queue_id in (0, 1):
            put(found, [b"%d" % number], queue_id=queue_id)
        found.advance(1_000)
    found.state.groups.known("billing", found.now_ms)
    for queue_id in (0, 1):
        found.state.offsets.put("billing", "orders", queue_id, 5)
    return found


def reset(
    desk: Desk,
    timestamp: int = START_MS + 2_000,
    queue_id: int | None = -1,
    offset: int | None = -1,
    *,
    force: bool = True,
    group: str = "billing",
    topic: str = "orders",
) -> Command:
    """Reset a group."""
    header = ResetOffset(topic, group, timestamp, force, queue_id, offset)
    return desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


def told(answer: Command) -> dict[int, int]:
    """Return what an answer says of each queue."""
    assert answer.code == 0, answer.remark
    return {queue.queue_id: offset for queue, offset in decode_body(ResetOffsets, answer.body).offsets.items()}


def query(desk: Desk) -> int:
    """Ask where the group is in the first queue."""
    answer = desk.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryOffset("billing", "orders", 0))
    return answer.header(OffsetAnswer).offset


def commit(desk: Desk, offset: int, peer: Peer | None = None, epoch: int | None = None) -> tuple[int, str | None]:
    """Commit in the first queue; return code and remark."""
    header = CommitOffset("billing", "orders", 0, offset, epoch)
    answer = desk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header, peer=peer)
    return answer.code, answer.remark


IGNORED = (0, "Offset has been previously reset")


def test_all_queues_go_to_a_time_and_the_answer_says_where(desk: Desk) -> None:
    answer = reset(desk)
    assert told(answer) == {0: 2, 1: 2}
    assert Queue("orders", "broker-0", 1) in decode_body(ResetOffsets, answer.body).offsets
    assert (answer.body[:17], query(desk)) == (b'{"offsetTable":{{', 2)


def test_a_time_below_zero_is_the_end_and_one_queue_goes_alone(desk: Desk) -> None:
    put(desk, [b"5"])
    assert told(reset(desk, -1)) == {0: 6, 1: 5}
    assert told(reset(desk, START_MS, 1)) == {1: 0}
    assert told(reset(desk, START_MS, 1, 3)) == {1: 3}
    assert told(reset(desk, START_MS, None, None)) == {0: 0, 1: 0}


def test_a_request_of_4_9_has_neither_queue_nor_offset(desk: Desk) -> None:
    fields = {"topic": "orders", "group": "billing", "timestamp": str(START_MS + 1_000), "isForce": "true"}
    assert told(desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)) == {0: 1, 1: 1}


def test_the_next_pull_is_told_where_to_go_and_commits_are_ignored_until_then(desk: Desk) -> None:
    reset(desk)
    assert (commit(desk, 5), query(desk)) == (IGNORED, 2)
    answer = pull(desk, pull_header(5, flags=5, commit=5))
    assert (answer.code, answer.remark, place(answer).next_begin_offset) == (21, "OFFSET_RESET", 2)
    assert (place(answer).min_offset, place(answer).max_offset, query(desk)) == (0, 5, 2)
    assert bodies(pull(desk, pull_header(2))) == [b"2", b"3", b"4"]
    assert (commit(desk, 5), query(desk)) == ((0, None), 5)


def test_a_member_of_4_9_that_commits_old_offsets_for_ten_seconds_after_it_was_told_undoes_nothing(desk: Desk) -> None:
    reset(desk)
    assert pull(desk, pull_header(5)).code == 21
    assert (commit(desk, 5), query(desk)) == (IGNORED, 2)
    desk.advance(5_000)
    assert (commit(desk, 5), query(desk)) == (IGNORED, 2)
    desk.advance(5_000)
    assert commit(desk, 2) == (0, None)
    assert (commit(desk, 4), query(desk)) == ((0, None), 4)


def test_a_member_that_goes_away_before_it_said_that_it_went_leaves_the_reset_to_the_next(desk: Desk) -> None:
    reset(desk)
    line = desk.line()
    assert pull(desk, pull_header(5), peer=line).code == 21
    desk.hang_up(line)
    assert (commit(desk, 5), pull(desk, pull_header(5)).code) == (IGNORED, 21)
    assert pull(desk, pull_header(2)).code == 0


def test_a_pull_that_waits_is_told_at_once(desk: Desk) -> None:
    mine, other = start_pull(desk, pull_header(5)), start_pull(desk, pull_header(5, group="else"))
    reset(desk)
    answer = desk.answer(mine)
    assert answer is not None
    assert (answer.code, place(answer).next_begin_offset) == (21, 2)
    assert desk.answer(other) is None


def test_a_reset_outlives_a_restart_as_what_is_committed(desk: Desk) -> None:
    reset(desk)
    desk.restart()
    assert query(desk) == 2


def test_the_last_pull_of_a_line_is_told_for_those_before_it_nobody_listens(desk: Desk) -> None:
    given_up, mine = start_pull(desk, pull_header(5)), start_pull(desk, pull_header(5))
    reset(desk)
    assert desk.answer(given_up) is None
    answer = desk.answer(mine)
    assert answer is not None
    assert (answer.code, place(answer).next_begin_offset) == (21, 2)


def test_our_owner_goes_there_once_and_keeps_its_lock(desk: Desk) -> None:
    desk.advance(3_000)
    beat(desk, "one", desk.peer)
    lock = desk.state.locks.take("billing", ("orders", 0), "one", desk.now_ms, until_ms=None, is_lease=True)
    assert lock is not None
    reset(desk)
    commit(desk, 5, epoch=lock.epoch)
    assert query(desk) == 2, "it has not been told yet"
    assert pull(desk, pull_header(5)).code == 21
    commit(desk, 5, epoch=lock.epoch)
    assert query(desk) == 2, "it has not gone there yet"
    assert pull(desk, pull_header(2)).code == 0
    assert commit(desk, 4, epoch=lock.epoch)[0] == 0
    assert query(desk) == 4


def test_without_force_a_group_only_goes_back(desk: Desk) -> None:
    desk.state.offsets.put("billing", "orders", 0, 1)
    assert told(reset(desk, force=False)) == {0: 1, 1: 2}
    assert pull(desk, pull_header(1)).code == 0
    assert pull(desk, pull_header(1, queue_id=1)).code == 21


def test_what_is_not_there_is_said(desk: Desk) -> None:
    assert reset(desk, topic="nowhere").code == 17
    assert reset(desk, group="nobody").code == 26
    assert reset(desk, queue_id=2).code == 29
    assert reset(desk, queue_id=0, offset=7).code == 1
    assert reset(desk, queue_id=0, offset=-2).code == 1
    assert told(reset(desk, queue_id=0, offset=6)) == {0: 5}
    assert told(reset(desk, (1 << 63) - 1, queue_id=-(1 << 31))) == {0: 5, 1: 5}


def test_members_of_a_clustering_group_are_not_pushed_to(desk: Desk) -> None:
    beat(desk, "one", desk.peer)
    desk.sent_to()
    assert told(reset(desk)) == {0: 2, 1: 2}
    assert desk.sent_to() == []


def test_each_member_of_a_broadcasting_group_is_told_by_220(desk: Desk) -> None:
    lines = [desk.line(), desk.line()]
    for number, line in enumerate(lines):
        beat(desk, f"m{number}", line, model=MessageModel.BROADCASTING)
        desk.sent_to(line)
    reset(desk)
    for line in lines:
        (push,) = [command for command in desk.sent_to(line) if command.code == 220]
        assert push.is_oneway
        assert (push.texts()["group"], push.texts()["topic"]) == ("billing", "orders")
        assert told(Command(0, body=push.body)) == {0: 2, 1: 2}
    assert pull(desk, pull_header(5)).code == 19
