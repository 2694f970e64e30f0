"""Offsets: what groups commit and ask for, where queues begin and end, and that all of it outlives a restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.desk import START_MS, Desk
from tests.broker.reader import beat, make_topic, put

from steelyard.broker import offsets as table
from steelyard.broker.offsets import Offsets
from steelyard.errors import ServerFailed
from steelyard.sim.disk import ForgettingDisk
from steelyard.store.state import GROUP_OFFSETS, load, save
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.bodies.offsets import DelayOffsets, GroupOffsets
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CloneOffsets
from steelyard.wire.headers.common import OffsetAnswer, QueueRequest
from steelyard.wire.headers.group import CommitOffset, EarliestAnswer, GetMaxOffset, QueryOffset, SearchOffset
from steelyard.wire.maps import ById


@pytest.fixture
def desk() -> Desk:
    """Open a broker with one topic of two queues and one group."""
    found = Desk()
    make_topic(found, queues=2)
    found.state.groups.known("billing", found.now_ms)
    return found


def commit(desk: Desk, offset: int, queue_id: int = 0, *, group: str = "billing", topic: str = "orders") -> Command:
    """Commit an offset."""
    return desk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(group, topic, queue_id, offset))


def query(
    desk: Desk, queue_id: int = 0, *, group: str = "billing", topic: str = "orders", zero: bool | None = None
) -> int | None:
    """Ask for a group's offset; None stands for code 22."""
    answer = desk.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryOffset(group, topic, queue_id, zero))
    assert answer.code in {0, 22}
    return answer.header(OffsetAnswer).offset if answer.code == 0 else None


def test_what_is_committed_is_what_is_asked_for(desk: Desk) -> None:
    assert commit(desk, 41).code == 0
    assert (query(desk), query(desk, 1, zero=False)) == (41, None)


def test_a_new_group_misses_nothing_of_a_queue_that_was_empty_when_it_asked(desk: Desk) -> None:
    # Told 22 it would ask for the end, and what is sent in between would be skipped.
    assert (query(desk), query(desk, zero=True), query(desk, zero=False)) == (0, 0, None)
    assert (query(desk, 99), query(desk, topic="nowhere")) == (0, 0)


def test_a_group_without_an_offset_starts_at_0_only_where_the_first_message_still_is(desk: Desk) -> None:
    put(desk, [b"a"])
    assert (query(desk), query(desk, zero=True), query(desk, zero=False)) == (0, 0, None)
    desk.state.store.forget_topic(b"orders")
    put(desk, [b"b"])
    assert query(desk) is None


def test_a_commit_of_a_group_or_to_a_topic_that_is_not_there_is_refused(desk: Desk) -> None:
    assert commit(desk, 1, group="nobody").code == 26
    assert commit(desk, 1, topic="nowhere").code == 17
    assert desk.state.groups.get("nobody") is None


def test_an_offset_that_nobody_can_mean_is_refused(desk: Desk) -> None:
    for offset, queue_id in ((-1, 0), (-(1 << 63), 0), (5, -1), (5, 2), (5, 2_147_483_647)):
        assert commit(desk, offset, queue_id).code == 29
    assert commit(desk, (1 << 63) - 1).code == 0


def test_a_queue_that_the_topic_has_no_more_still_takes_commits(desk: Desk) -> None:
    put(desk, [b"a"], queue_id=1)
    make_topic(desk, queues=1)
    assert commit(desk, 1, 1).code == 0


def test_a_commit_may_go_back_and_that_is_counted(desk: Desk) -> None:
    for offset in (5, 3, 3, 9):
        commit(desk, offset)
    assert (query(desk), desk.state.offsets.lowered) == (9, 1)


def test_a_one_way_commit_is_taken_and_not_answered(desk: Desk) -> None:
    desk.say(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset("billing", "orders", 0, 4), oneway=True)
    assert (query(desk), desk.sent_to()) == (4, [])


def test_offsets_outlive_a_restart_and_what_is_the_same_again_is_not_saved_again(desk: Desk) -> None:
    put(desk, [b"x"] * 41)
    put(desk, [b"x"] * 9, queue_id=1)
    commit(desk, 41)
    commit(desk, 7, 1)
    desk.restart()
    assert (query(desk), query(desk, 1)) == (41, 7)
    commit(desk, 41)
    assert desk.state.offsets.changes == 0


def test_an_offset_beyond_the_end_of_its_queue_is_at_the_end_after_a_start(desk: Desk) -> None:
    put(desk, [b"safe"] * 3)
    desk.sync()
    put(desk, [b"not safe"] * 4)
    commit(desk, 7)
    desk.save(everything=True)
    desk.lose_power()
    assert query(desk) == 3
    assert any("beyond the end" in note for note in desk.state.notes)
    put(desk, [b"new"] * 5)
    assert query(desk) == 3


def test_the_ends_of_a_queue_are_told_and_0_for_one_that_is_not_there(desk: Desk) -> None:
    put(desk, [b"x"] * 5)
    desk.state.store.forget_topic(b"orders")
    put(desk, [b"x"] * 2)

    def ends(topic: str, queue_id: int) -> tuple[int, int]:
        low = desk.ask(RequestCode.GET_MIN_OFFSET, QueueRequest(topic, queue_id)).header(OffsetAnswer).offset
        high = desk.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue_id, True)).header(OffsetAnswer).offset
        return low, high

    assert (ends("orders", 0), ends("orders", 1), ends("orders", -1), ends("no", 0)) == ((5, 7), (0, 0), (0, 0), (0, 0))


def search(desk: Desk, time_ms: int, boundary: str | None = None, topic: str = "orders") -> int:
    """Ask for the offset at a time."""
    header = SearchOffset(topic, 0, time_ms, boundary)
    return desk.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header).header(OffsetAnswer).offset


def test_the_offset_at_a_time_is_the_first_at_or_after_it_or_the_last_at_or_before_it(desk: Desk) -> None:
    for time_ms in (10, 10, 20, 40):
        desk.now_ms = START_MS + time_ms
        put(desk, [b"x"])
    lower = {0: 0, 10: 0, 11: 2, 20: 2, 30: 3, 40: 3, 41: 4}
    upper = {0: 0, 10: 1, 11: 1, 20: 2, 30: 2, 40: 3, 41: 3}
    assert {at: search(desk, START_MS + at) for at in lower} == lower
    assert {at: search(desk, START_MS + at, "LOWER") for at in lower} == lower
    assert {at: search(desk, START_MS + at, "UPPER") for at in upper} == upper
    for boundary in (None, "UPPER", "nonsense"):
        assert search(desk, -(1 << 63), boundary) == 0
        assert search(desk, 0, boundary, topic="nowhere") == 0
        assert search(desk, (1 << 63) - 1, boundary) in {3, 4}


def test_the_time_of_the_oldest_message_is_told_and_minus_1_without_one(desk: Desk) -> None:
    def earliest(topic: str = "orders") -> int:
        answer = desk.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QueueRequest(topic, 0))
        return answer.header(EarliestAnswer).timestamp

    assert (earliest(), earliest("nowhere")) == (-1, -1)
    put(desk, [b"a"])
    desk.advance(1_000)
    put(desk, [b"b"])
    assert earliest() == START_MS


def test_a_group_gets_the_offsets_of_another_in_one_topic_or_in_all_that_is_read(desk: Desk) -> None:
    make_topic(desk, "returns")
    commit(desk, 41)
    commit(desk, 7, topic="returns")
    assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets("billing", "one", "orders")).code == 0
    assert (query(desk, group="one"), query(desk, group="one", topic="returns", zero=False)) == (41, None)
    assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets("billing", "all")).code == 0
    assert (query(desk, group="all"), query(desk, group="all", topic="returns")) == (41, 7)
    beat(desk, "a", desk.peer, subscriptions=[SubscriptionBody(topic="orders")])
    assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets("billing", "some")).code == 0
    assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets("billing", "each", offline=True)).code == 0
    assert query(desk, group="some", topic="returns", zero=False) is None
    assert query(desk, group="each", topic="returns") == 7
    assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets("billing", "../etc")).code == 29


def test_all_offsets_are_told_as_apache_writes_them(desk: Desk) -> None:
    commit(desk, 41)
    body = desk.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body
    assert b'"offsetTable":{"orders@billing":{0:41}}' in body
    assert dict(decode_body(GroupOffsets, body).offsets["orders@billing"]) == {0: 41}
    assert decode_body(DelayOffsets, desk.ask(RequestCode.GET_ALL_DELAY_OFFSET).body) is not None


# -- the table ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_topic_and_of_a_group_can_be_forgotten() -> None:
    offsets = Offsets(None)
    for group in ("a", "b"):
        for topic in ("t", "u"):
            offsets.put(group, topic, 0, 5)
            offsets.note_pull(group, topic, 0, 6)
            offsets.reset(group, topic, 1, 7)
    offsets.forget_topic("t")
    assert (offsets.topics_of("a"), offsets.groups_of("t"), offsets.groups_of("u")) == (["u"], [], ["a", "b"])
    assert (offsets.pulled("a", "t", 0), offsets.take_reset("a", "t", 1, 9)) == (None, None)
    offsets.forget_group("a")
    assert (offsets.of("a", "u"), offsets.of("b", "u")) == ({}, {0: 5, 1: 7})
    assert list(offsets.table().offsets) == ["u@b"]


@pytest.mark.parametrize("pair", ["", "@", "orders", "orders@", "@billing"])
def test_pairs_that_name_no_group_are_passed_over(pair: str) -> None:
    offsets = Offsets(GroupOffsets(offsets={pair: ById({0: 1}), "t@g": ById({0: 2, 1: -1})}))
    assert (offsets.get("g", "t", 0), offsets.get("g", "t", 1), offsets.changes) == (2, None, 0)


def test_the_table_grows_no_further_than_it_can_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_MOST_BYTES", 20_000)
    offsets = Offsets(None)
    with pytest.raises(ServerFailed):
        fill(offsets, 10_000)
    disk = ForgettingDisk()
    disk.mkdir("config")
    save(disk, GROUP_OFFSETS, offsets.table())
    assert len(disk.read(GROUP_OFFSETS.path) or b"") < 20_200
    offsets.put("group0", "topic", 65_535, 1)  # what is there can still change
    offsets.forget_group("group1")
    offsets.put("new", "topic", 0, 1)


def fill(offsets: Offsets, count: int) -> None:
    """Commit long numbers in many queues."""
    for number in range(count):
        offsets.put(f"group{number // 100}", "topic", 65_535 - number % 100, (1 << 63) - 1)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.integers(0, 9), st.integers(0, 1 << 62))))
def test_what_is_saved_is_what_is_read_back(commits: list[tuple[str, str, int, int]]) -> None:
    offsets, model = Offsets(None), dict[tuple[str, str, int], int]()
    for group, topic, queue_id, offset in commits:
        offsets.put(group, topic, queue_id, offset)
        model[group, topic, queue_id] = offset
    disk = ForgettingDisk()
    disk.mkdir("config")
    save(disk, GROUP_OFFSETS, offsets.table())
    again = Offsets(load(disk, GROUP_OFFSETS).value)
    assert all(again.get(*queue) == offset for queue, offset in model.items())
    assert again.table().offsets.keys() == offsets.table().offsets.keys()


def test_what_the_broker_keeps_for_itself_nobody_moves() -> None:
    desk = Desk()
    for group in ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TIMER"):
        desk.state.groups.known(group, desk.now_ms)
        commit = CommitOffset(consumer_group=group, topic="RMQ_SYS_TRANS_HALF_TOPIC", queue_id=0, commit_offset=9)
        assert desk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 16
        clone = {"srcGroup": "billing", "destGroup": group, "topic": "orders"}
        assert desk.ask(RequestCode.CLONE_GROUP_OFFSET, clone).code == 16
        delete = {"groupName": group, "cleanOffset": "true"}
        assert desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, delete).code == 16
        reset = {"group": group, "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "timestamp": "-1", "isForce": "true"}
        assert desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset).code == 16
        assert desk.state.offsets.get(group, "RMQ_SYS_TRANS_HALF_TOPIC", 0) is None
