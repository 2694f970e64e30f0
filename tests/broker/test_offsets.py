"""Offsets: what groups commit and ask for, where queues begin and end, and that all of it outlives a restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.broker import offsets as table
from steelyard.broker.offsets import ConsumerOffsets
from steelyard.errors import ServerFailed
from steelyard.store.json_documents import GROUP_OFFSETS, load_document, save_document
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CloneGroupOffset
from steelyard.wire.headers.common import OffsetResponse, QueueRequest
from steelyard.wire.headers.group import (
    CommitOffset,
    EarliestStoreTimeResponse,
    GetMaxOffset,
    QueryConsumerOffset,
    SearchOffset,
)
from steelyard.wire.json_body import ById
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import make_topic, send_heartbeat, store_messages


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with one topic of two queues and one group."""
    found = BrokerHarness()
    make_topic(found, queues=2)
    found.state.groups.get_or_create("billing", found.now_ms)
    return found


def commit(
    harness: BrokerHarness, offset: int, queue_id: int = 0, *, group: str = "billing", topic: str = "orders"
) -> Command:
    """Commit an offset."""
    return harness.request(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(group, topic, queue_id, offset))


def query(
    harness: BrokerHarness,
    queue_id: int = 0,
    *,
    group: str = "billing",
    topic: str = "orders",
    zero: bool | None = None,
) -> int | None:
    """Ask for a group's offset; None stands for code 22."""
    answer = harness.request(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(group, topic, queue_id, zero))
    assert answer.code in {0, 22}
    return answer.header(OffsetResponse).offset if answer.code == 0 else None


def test_what_is_committed_is_what_is_asked_for(harness: BrokerHarness) -> None:
    assert commit(harness, 41).code == 0
    assert (query(harness), query(harness, 1, zero=False)) == (41, None)


def test_a_new_group_misses_nothing_of_a_queue_that_was_empty_when_it_asked(harness: BrokerHarness) -> None:
    # Told 22 it would ask for the end, and what is sent in between would be skipped.
    assert (query(harness), query(harness, zero=True), query(harness, zero=False)) == (0, 0, None)
    assert (query(harness, 99), query(harness, topic="nowhere")) == (0, 0)


def test_a_group_without_an_offset_starts_at_0_only_where_the_first_message_still_is(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"])
    assert (query(harness), query(harness, zero=True), query(harness, zero=False)) == (0, 0, None)
    harness.state.store.delete_topic(b"orders")
    store_messages(harness, [b"b"])
    assert query(harness) is None


def test_a_commit_of_a_group_or_to_a_topic_that_is_not_there_is_refused(harness: BrokerHarness) -> None:
    assert commit(harness, 1, group="nobody").code == 26
    assert commit(harness, 1, topic="nowhere").code == 17
    assert harness.state.groups.get("nobody") is None


def test_an_offset_that_nobody_can_mean_is_refused(harness: BrokerHarness) -> None:
    for offset, queue_id in ((-1, 0), (-(1 << 63), 0), (5, -1), (5, 2), (5, 2_147_483_647)):
        assert commit(harness, offset, queue_id).code == 29
    assert commit(harness, (1 << 63) - 1).code == 0


def test_a_queue_that_the_topic_has_no_more_still_takes_commits(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"], queue_id=1)
    make_topic(harness, queues=1)
    assert commit(harness, 1, 1).code == 0


def test_a_commit_may_go_back_and_that_is_counted(harness: BrokerHarness) -> None:
    for offset in (5, 3, 3, 9):
        commit(harness, offset)
    assert (query(harness), harness.state.offsets.backward_commits) == (9, 1)


def test_a_one_way_commit_is_taken_and_not_answered(harness: BrokerHarness) -> None:
    harness.send(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset("billing", "orders", 0, 4), oneway=True)
    assert (query(harness), harness.sent_to()) == (4, [])


def test_offsets_outlive_a_restart_and_what_is_the_same_again_is_not_saved_again(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 41)
    store_messages(harness, [b"x"] * 9, queue_id=1)
    commit(harness, 41)
    commit(harness, 7, 1)
    harness.restart()
    assert (query(harness), query(harness, 1)) == (41, 7)
    commit(harness, 41)
    assert harness.state.offsets.changes == 0


def test_an_offset_beyond_the_end_of_its_queue_is_at_the_end_after_a_start(harness: BrokerHarness) -> None:
    store_messages(harness, [b"safe"] * 3)
    harness.sync()
    store_messages(harness, [b"not safe"] * 4)
    commit(harness, 7)
    harness.save(everything=True)
    harness.lose_power()
    assert query(harness) == 3
    assert any("beyond the end" in note for note in harness.state.warnings)
    store_messages(harness, [b"new"] * 5)
    assert query(harness) == 3


def test_the_ends_of_a_queue_are_reported_and_0_for_one_that_is_not_there(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 5)
    harness.state.store.delete_topic(b"orders")
    store_messages(harness, [b"x"] * 2)

    def ends(topic: str, queue_id: int) -> tuple[int, int]:
        low = harness.request(RequestCode.GET_MIN_OFFSET, QueueRequest(topic, queue_id)).header(OffsetResponse).offset
        high = (
            harness.request(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue_id, True))
            .header(OffsetResponse)
            .offset
        )
        return low, high

    assert (ends("orders", 0), ends("orders", 1), ends("orders", -1), ends("no", 0)) == ((5, 7), (0, 0), (0, 0), (0, 0))


def search(harness: BrokerHarness, time_ms: int, boundary: str | None = None, topic: str = "orders") -> int:
    """Ask for the offset at a time."""
    header = SearchOffset(topic, 0, time_ms, boundary)
    return harness.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header).header(OffsetResponse).offset


def test_the_offset_at_a_time_is_the_first_at_or_after_it_or_the_last_at_or_before_it(harness: BrokerHarness) -> None:
    for time_ms in (10, 10, 20, 40):
        harness.now_ms = START_MS + time_ms
        store_messages(harness, [b"x"])
    lower = {0: 0, 10: 0, 11: 2, 20: 2, 30: 3, 40: 3, 41: 4}
    upper = {0: 0, 10: 1, 11: 1, 20: 2, 30: 2, 40: 3, 41: 3}
    assert {at: search(harness, START_MS + at) for at in lower} == lower
    assert {at: search(harness, START_MS + at, "LOWER") for at in lower} == lower
    assert {at: search(harness, START_MS + at, "UPPER") for at in upper} == upper
    for boundary in (None, "UPPER", "nonsense"):
        assert search(harness, -(1 << 63), boundary) == 0
        assert search(harness, 0, boundary, topic="nowhere") == 0
        assert search(harness, (1 << 63) - 1, boundary) in {3, 4}


def test_the_time_of_the_oldest_message_is_reported_and_minus_1_without_one(harness: BrokerHarness) -> None:
    def earliest(topic: str = "orders") -> int:
        answer = harness.request(RequestCode.GET_EARLIEST_MSG_STORETIME, QueueRequest(topic, 0))
        return answer.header(EarliestStoreTimeResponse).timestamp

    assert (earliest(), earliest("nowhere")) == (-1, -1)
    store_messages(harness, [b"a"])
    harness.advance(1_000)
    store_messages(harness, [b"b"])
    assert earliest() == START_MS


def test_a_group_gets_the_offsets_of_another_in_one_topic_or_in_all_that_is_read(harness: BrokerHarness) -> None:
    make_topic(harness, "returns")
    commit(harness, 41)
    commit(harness, 7, topic="returns")
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "one", "orders")).code == 0
    assert (query(harness, group="one"), query(harness, group="one", topic="returns", zero=False)) == (41, None)
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "all")).code == 0
    assert (query(harness, group="all"), query(harness, group="all", topic="returns")) == (41, 7)
    send_heartbeat(harness, "a", harness.peer, subscriptions=[SubscriptionBody(topic="orders")])
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "some")).code == 0
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "each", offline=True)).code == 0
    assert query(harness, group="some", topic="returns", zero=False) is None
    assert query(harness, group="each", topic="returns") == 7
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "../etc")).code == 29


def test_more_offsets_than_are_copied_at_a_time_are_copied_topic_by_topic(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.requests.offsets._MAX_COPIED", 1)
    make_topic(harness, "returns")
    commit(harness, 41)
    commit(harness, 7, topic="returns")
    refused = harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "all"))
    assert (refused.code, "copy one topic at a time" in (refused.remark or "")) == (1, True)
    assert query(harness, group="all", zero=False) is None
    assert harness.request(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffset("billing", "all", "orders")).code == 0
    assert query(harness, group="all") == 41


def test_all_offsets_are_reported_as_apache_writes_them(harness: BrokerHarness) -> None:
    commit(harness, 41)
    body = harness.request(RequestCode.GET_ALL_CONSUMER_OFFSET).body
    assert b'"offsetTable":{"orders@billing":{0:41}}' in body
    assert dict(decode_body(ConsumerOffsetTable, body).offsets["orders@billing"]) == {0: 41}
    assert decode_body(DelayOffsetTable, harness.request(RequestCode.GET_ALL_DELAY_OFFSET).body) is not None


# -- the table ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_topic_and_of_a_group_can_be_forgotten() -> None:
    offsets = ConsumerOffsets(None)
    for group in ("a", "b"):
        for topic in ("t", "u"):
            offsets.put(group, topic, 0, 5)
            offsets.record_pull(group, topic, 0, 6)
            offsets.reset(group, topic, 1, 7)
    offsets.forget_topic("t")
    assert (offsets.topics_of("a"), offsets.groups_of("t"), offsets.groups_of("u")) == (["u"], [], ["a", "b"])
    assert (offsets.pulled_in("a", "t").get(0), offsets.pop_reset("a", "t", 1, 9)) == (None, None)
    offsets.forget_group("a")
    assert (offsets.committed_in("a", "u"), offsets.committed_in("b", "u")) == ({}, {0: 5, 1: 7})
    assert list(offsets.table().offsets) == ["u@b"]


@pytest.mark.parametrize("pair", ["", "@", "orders", "orders@", "@billing"])
def test_pairs_that_name_no_group_are_passed_over(pair: str) -> None:
    offsets = ConsumerOffsets(ConsumerOffsetTable(offsets={pair: ById({0: 1}), "t@g": ById({0: 2, 1: -1})}))
    assert (offsets.get("g", "t", 0), offsets.get("g", "t", 1), offsets.changes) == (2, None, 0)


def test_the_table_grows_no_further_than_it_can_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_MAX_BYTES", 20_000)
    offsets = ConsumerOffsets(None)
    with pytest.raises(ServerFailed):
        fill(offsets, 10_000)
    disk = SimulatedDisk()
    disk.mkdir("config")
    save_document(disk, GROUP_OFFSETS, offsets.table())
    assert len(disk.read(GROUP_OFFSETS.path) or b"") < 20_200
    offsets.put("group0", "topic", 65_535, 1)  # what is there can still change
    offsets.forget_group("group1")
    offsets.put("new", "topic", 0, 1)


def fill(offsets: ConsumerOffsets, count: int) -> None:
    """Commit long numbers in many queues."""
    for number in range(count):
        offsets.put(f"group{number // 100}", "topic", 65_535 - number % 100, (1 << 63) - 1)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.integers(0, 9), st.integers(0, 1 << 62))))
def test_what_is_saved_is_what_is_read_back(commits: list[tuple[str, str, int, int]]) -> None:
    offsets, model = ConsumerOffsets(None), dict[tuple[str, str, int], int]()
    for group, topic, queue_id, offset in commits:
        offsets.put(group, topic, queue_id, offset)
        model[group, topic, queue_id] = offset
    disk = SimulatedDisk()
    disk.mkdir("config")
    save_document(disk, GROUP_OFFSETS, offsets.table())
    again = ConsumerOffsets(load_document(disk, GROUP_OFFSETS).value)
    assert all(again.get(*queue) == offset for queue, offset in model.items())
    assert again.table().offsets.keys() == offsets.table().offsets.keys()


def test_what_the_broker_keeps_for_itself_nobody_moves() -> None:
    harness = BrokerHarness()
    for group in ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TIMER"):
        harness.state.groups.get_or_create(group, harness.now_ms)
        commit = CommitOffset(consumer_group=group, topic="RMQ_SYS_TRANS_HALF_TOPIC", queue_id=0, commit_offset=9)
        assert harness.request(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 16
        clone = {"srcGroup": "billing", "destGroup": group, "topic": "orders"}
        assert harness.request(RequestCode.CLONE_GROUP_OFFSET, clone).code == 16
        delete = {"groupName": group, "cleanOffset": "true"}
        assert harness.request(RequestCode.DELETE_SUBSCRIPTIONGROUP, delete).code == 16
        reset = {"group": group, "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "timestamp": "-1", "isForce": "true"}
        assert harness.request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset).code == 16
        assert harness.state.offsets.get(group, "RMQ_SYS_TRANS_HALF_TOPIC", 0) is None
