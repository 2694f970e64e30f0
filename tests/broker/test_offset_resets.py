"""Resets: a group goes on from somewhere else, whatever its members know of it."""

import pytest

from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.bodies.offsets import ResetOffsets
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Peer
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import CommitOffset, QueryConsumerOffset, ResetOffset
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import (
    bodies,
    make_topic,
    pull,
    pull_fields,
    pull_header,
    send_heartbeat,
    start_pull,
    store_messages,
)


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with a topic of two queues: five messages in each, one a second; the group read all."""
    found = BrokerHarness()
    make_topic(found, queues=2)
    for number in range(5):
        for queue_id in (0, 1):
            store_messages(found, [b"%d" % number], queue_id=queue_id)
        found.advance(1_000)
    found.state.groups.get_or_create("billing", found.now_ms)
    for queue_id in (0, 1):
        found.state.offsets.put("billing", "orders", queue_id, 5)
    return found


def reset(
    harness: BrokerHarness,
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
    return harness.request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


def reported(answer: Command) -> dict[int, int]:
    """Return what an answer says of each queue."""
    assert answer.code == 0, answer.remark
    return {queue.queue_id: offset for queue, offset in decode_body(ResetOffsets, answer.body).offsets.items()}


def query(harness: BrokerHarness) -> int:
    """Ask where the group is in the first queue."""
    answer = harness.request(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset("billing", "orders", 0))
    return answer.header(OffsetResponse).offset


def commit(
    harness: BrokerHarness, offset: int, peer: Peer | None = None, epoch: int | None = None
) -> tuple[int, str | None]:
    """Commit in the first queue; return code and remark."""
    header = CommitOffset("billing", "orders", 0, offset, epoch)
    answer = harness.request(RequestCode.UPDATE_CONSUMER_OFFSET, header, peer=peer)
    return answer.code, answer.remark


IGNORED = (0, "Offset has been previously reset")


def test_all_queues_go_to_a_time_and_the_answer_says_where(harness: BrokerHarness) -> None:
    answer = reset(harness)
    assert reported(answer) == {0: 2, 1: 2}
    assert Queue("orders", "broker-0", 1) in decode_body(ResetOffsets, answer.body).offsets
    assert (answer.body[:17], query(harness)) == (b'{"offsetTable":{{', 2)


def test_a_time_below_zero_is_the_end_and_one_queue_goes_alone(harness: BrokerHarness) -> None:
    store_messages(harness, [b"5"])
    assert reported(reset(harness, -1)) == {0: 6, 1: 5}
    assert reported(reset(harness, START_MS, 1)) == {1: 0}
    assert reported(reset(harness, START_MS, 1, 3)) == {1: 3}
    assert reported(reset(harness, START_MS, None, None)) == {0: 0, 1: 0}


def test_a_request_of_4_9_has_neither_queue_nor_offset(harness: BrokerHarness) -> None:
    fields = {"topic": "orders", "group": "billing", "timestamp": str(START_MS + 1_000), "isForce": "true"}
    assert reported(harness.request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)) == {0: 1, 1: 1}


def test_the_next_pull_is_told_where_to_go_and_commits_are_ignored_until_then(harness: BrokerHarness) -> None:
    reset(harness)
    assert (commit(harness, 5), query(harness)) == (IGNORED, 2)
    answer = pull(harness, pull_header(5, flags=5, commit=5))
    assert (answer.code, answer.remark, pull_fields(answer).next_begin_offset) == (21, "OFFSET_RESET", 2)
    assert (pull_fields(answer).min_offset, pull_fields(answer).max_offset, query(harness)) == (0, 5, 2)
    assert bodies(pull(harness, pull_header(2))) == [b"2", b"3", b"4"]
    assert (commit(harness, 5), query(harness)) == ((0, None), 5)


def test_a_member_of_4_9_that_commits_old_offsets_for_ten_seconds_after_it_was_told_undoes_nothing(
    harness: BrokerHarness,
) -> None:
    reset(harness)
    assert pull(harness, pull_header(5)).code == 21
    assert (commit(harness, 5), query(harness)) == (IGNORED, 2)
    harness.advance(5_000)
    assert (commit(harness, 5), query(harness)) == (IGNORED, 2)
    harness.advance(5_000)
    assert commit(harness, 2) == (0, None)
    assert (commit(harness, 4), query(harness)) == ((0, None), 4)


def test_a_member_that_goes_away_before_it_said_that_it_went_leaves_the_reset_to_the_next(
    harness: BrokerHarness,
) -> None:
    reset(harness)
    own_peer = harness.connect()
    assert pull(harness, pull_header(5), peer=own_peer).code == 21
    harness.disconnect(own_peer)
    assert (commit(harness, 5), pull(harness, pull_header(5)).code) == (IGNORED, 21)
    assert pull(harness, pull_header(2)).code == 0


def test_a_pull_that_waits_is_reported_at_once(harness: BrokerHarness) -> None:
    mine, other = start_pull(harness, pull_header(5)), start_pull(harness, pull_header(5, group="else"))
    reset(harness)
    answer = harness.pop_response(mine)
    assert answer is not None
    assert (answer.code, pull_fields(answer).next_begin_offset) == (21, 2)
    assert harness.pop_response(other) is None


def test_a_reset_outlives_a_restart_as_what_is_committed(harness: BrokerHarness) -> None:
    reset(harness)
    harness.restart()
    assert query(harness) == 2


def test_the_last_pull_of_a_connection_is_told_for_those_before_it_nobody_listens(harness: BrokerHarness) -> None:
    given_up, mine = start_pull(harness, pull_header(5)), start_pull(harness, pull_header(5))
    reset(harness)
    assert harness.pop_response(given_up) is None
    answer = harness.pop_response(mine)
    assert answer is not None
    assert (answer.code, pull_fields(answer).next_begin_offset) == (21, 2)


def test_our_owner_goes_there_once_and_keeps_its_lock(harness: BrokerHarness) -> None:
    harness.advance(3_000)
    send_heartbeat(harness, "one", harness.peer)
    lock = harness.state.queue_locks.acquire(
        "billing", ("orders", 0), "one", harness.now_ms, until_ms=None, is_lease=True
    )
    assert lock is not None
    reset(harness)
    commit(harness, 5, epoch=lock.epoch)
    assert query(harness) == 2, "it has not been told yet"
    assert pull(harness, pull_header(5)).code == 21
    commit(harness, 5, epoch=lock.epoch)
    assert query(harness) == 2, "it has not gone there yet"
    assert pull(harness, pull_header(2)).code == 0
    assert commit(harness, 4, epoch=lock.epoch)[0] == 0
    assert query(harness) == 4


def test_without_force_a_group_only_goes_back(harness: BrokerHarness) -> None:
    harness.state.offsets.put("billing", "orders", 0, 1)
    assert reported(reset(harness, force=False)) == {0: 1, 1: 2}
    assert pull(harness, pull_header(1)).code == 0
    assert pull(harness, pull_header(1, queue_id=1)).code == 21


def test_what_is_not_there_is_reported(harness: BrokerHarness) -> None:
    assert reset(harness, topic="nowhere").code == 17
    assert reset(harness, group="nobody").code == 26
    assert reset(harness, queue_id=2).code == 29
    assert reset(harness, queue_id=0, offset=7).code == 1
    assert reset(harness, queue_id=0, offset=-2).code == 1
    assert reported(reset(harness, queue_id=0, offset=6)) == {0: 5}
    assert reported(reset(harness, (1 << 63) - 1, queue_id=-(1 << 31))) == {0: 5, 1: 5}


def test_members_of_a_clustering_group_are_not_pushed_to(harness: BrokerHarness) -> None:
    send_heartbeat(harness, "one", harness.peer)
    harness.sent_to()
    assert reported(reset(harness)) == {0: 2, 1: 2}
    assert harness.sent_to() == []


def test_each_member_of_a_broadcasting_group_is_reported_by_220(harness: BrokerHarness) -> None:
    peers = [harness.connect(), harness.connect()]
    for number, own_peer in enumerate(peers):
        send_heartbeat(harness, f"m{number}", own_peer, model=MessageModel.BROADCASTING)
        harness.sent_to(own_peer)
    reset(harness)
    for own_peer in peers:
        (push,) = [command for command in harness.sent_to(own_peer) if command.code == 220]
        assert push.is_oneway
        assert (push.texts()["group"], push.texts()["topic"]) == ("billing", "orders")
        assert reported(Command(0, body=push.body)) == {0: 2, 1: 2}
    assert pull(harness, pull_header(5)).code == 19


def test_a_reset_by_time_that_would_read_very_many_messages_is_done_queue_by_queue(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.requests.offsets._MAX_READS", 5)
    refused = reset(harness)
    assert (refused.code, "reset one queue at a time" in (refused.remark or "")) == (1, True)
    assert reported(reset(harness, timestamp=-1)) == {0: 5, 1: 5}
    assert reported(reset(harness, queue_id=1)) == {1: 2}


def test_pulls_beyond_those_that_a_reset_answers_learn_of_it_at_their_end(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.requests.offsets.PULLS_PER_CALL", 1)
    pulls = [start_pull(harness, pull_header(5, queue_id=queue_id, wait_ms=15_000)) for queue_id in (0, 1)]
    assert reported(reset(harness)) == {0: 2, 1: 2}
    answers = [harness.pop_response(each) for each in pulls]
    assert [answer is None for answer in answers] == [False, True]
    harness.advance(16_000)
    last = harness.pop_response(pulls[1])
    assert last is not None
    assert pull_fields(last).next_begin_offset == 2


def test_many_members_of_a_broadcasting_group_are_not_sent_very_many_offsets(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.requests.offsets._MAX_PUSHED", 3)
    for name in ("a", "b"):
        send_heartbeat(harness, name, harness.connect(), group="news", model=MessageModel.BROADCASTING)
    assert reset(harness, group="news").code == 1
    assert reset(harness, group="news", queue_id=1).code == 0
