"""Ranges are read whole and in order, however little a broker gives and in whatever order it answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.client.bulk.connection_pool import ConnectionPool
from steelyard.client.bulk.range_reader import RecordChunk, fail_on_loss, read_ranges
from steelyard.client.config import ClientConfig
from steelyard.errors import GroupNotFound, MessagesLost, NoPermission, TimedOut
from steelyard.model import OffsetRange
from steelyard.model.queue import Queue
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.stored_messages import decode_messages
from tests.client.scripted_broker import Broker, Respond, broker, queue_of, record
from tests.waiting import until


def read(
    server: Broker,
    *ranges: OffsetRange,
    wanted: tuple[str, str] | None = None,
    depth: int = 16,
    most: int = 1_000,
    ahead_bytes: int = 1 << 24,
    patience_ms: int = 20_000,
    settle_ms: int = 0,
    lost: list[tuple[OffsetRange, str]] | None = None,
    connections: ConnectionPool | None = None,
    addresses: dict[str, str] | None = None,
) -> list[RecordChunk]:
    """Read ranges of one broker to their ends; what is lost is noted if there is a list for it."""
    buffer = ConnectionPool() if connections is None else connections
    on_lost = fail_on_loss if lost is None else lambda gone, why: lost.append((gone, why))
    try:
        return list(
            read_ranges(
                ranges,
                ClientConfig(server.address),
                {server.name: server.address} if addresses is None else addresses,
                wanted=wanted,
                depth=depth,
                max_messages=most,
                ahead_bytes=ahead_bytes,
                idle_timeout_ms=patience_ms,
                settle_ms=settle_ms,
                pool=buffer,
                on_lost=on_lost,
            )
        )
    finally:
        if connections is None:
            buffer.close()


def offsets(pieces: list[RecordChunk], queue: Queue | None = None) -> list[int]:
    """Return the offsets of the messages that pieces want, in their order."""
    return [
        message.offset
        for piece in pieces
        if queue is None or piece.queue == queue
        for message in decode_messages(piece.records, piece.queue.broker)
        if piece.start <= message.offset < piece.end
    ]


def whole(start: int, end: int, queue_id: int = 0) -> OffsetRange:
    """Return a range."""
    return OffsetRange(queue_of(queue_id), start, end)


def test_a_range_is_read_from_its_start_to_before_its_end() -> None:
    with broker() as server:
        server.fill(0, 100)
        pieces = read(server, whole(17, 83))
        assert offsets(pieces) == list(range(17, 83))
        assert [(piece.start, piece.end) for piece in pieces] == [(17, 49), (49, 81), (81, 83)]
        assert all(pull.sys_flag == 4 and not pull.suspend_timeout_millis for pull in server.asked), "never held"


def test_nothing_is_asked_for_an_empty_range() -> None:
    with broker() as server:
        assert read(server, whole(5, 5)) == []
        assert read(server) == []
        assert not server.connections


@given(st.data())
@settings(max_examples=60)
def test_any_ranges_are_read_exactly_whatever_a_broker_gives_and_filters(data: st.DataObject) -> None:
    with broker() as server:
        tags = data.draw(st.lists(st.sampled_from(["Aa", "BB", "paid", None]), min_size=1, max_size=4), label="tags")
        size = data.draw(st.sampled_from([0, 0, 300]), label="body")
        counts = data.draw(st.lists(st.integers(1, 400), min_size=1, max_size=4), label="messages")
        for queue_id, count in enumerate(counts):
            server.fill(queue_id, count, lambda offset: tags[offset % len(tags)], size)
        server.most = data.draw(st.sampled_from([1, 7, 32, 1_000]), label="given for a pull")
        server.most_bytes = data.draw(st.sampled_from([1, 2_000, 1 << 20]), label="bytes for a pull")
        server.on_request = data.draw(st.sampled_from([5, 100, 800]), label="looked at")
        server.is_backwards = data.draw(st.booleans(), label="backwards")
        wanted = data.draw(
            st.sampled_from([None, ("TAG", "Aa"), ("TAG", "paid || BB"), ("TAG", "none")]), label="wanted"
        )
        ranges = []
        for queue_id, count in enumerate(counts):
            cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4), label="cuts"))
            ranges += [whole(start, end, queue_id) for start, end in zip([0, *cuts], [*cuts, count], strict=True)]
        data.draw(st.randoms(use_true_random=False)).shuffle(ranges)
        pieces = read(
            server,
            *ranges,
            wanted=wanted,
            depth=data.draw(st.sampled_from([1, 2, 16]), label="depth"),
            most=data.draw(st.sampled_from([1, 10, 1_000]), label="asked for"),
            ahead_bytes=data.draw(st.sampled_from([1, 10_000, 1 << 24]), label="ahead"),
        )
        for each in ranges:
            own = [piece for piece in pieces if piece.queue == each.queue and piece.start in each]
            assert [piece.start for piece in own] == sorted(piece.start for piece in own)
            assert all(piece.end <= each.end for piece in own)
            # One hash may have two tags, which only whoever decodes can tell apart.
            hashed = {"Aa", "BB"} if wanted == ("TAG", "Aa") else {"Aa", "BB", "paid"}
            taken = {None, *tags} if wanted is None else set() if wanted[1] == "none" else hashed
            expected = [offset for offset in range(each.start, each.end) if tags[offset % len(tags)] in taken]
            assert offsets(own) == expected


def test_a_broker_that_gives_little_is_asked_for_little_after_its_first_answer() -> None:
    with broker() as server:
        server.fill(0, 5_000)
        assert offsets(read(server, whole(0, 5_000))) == list(range(5_000))
        assert server.asked[0].max_msg_nums == 1_000
        assert len(server.asked) < 5_000 / 32 * 1.2
        assert sorted(pull.max_msg_nums for pull in server.asked)[len(server.asked) // 2] <= 64


def test_a_broker_that_gives_more_later_is_asked_for_more() -> None:
    with broker() as server:
        server.fill(0, 40_000)
        server.most = 1_000
        server.respond_with = lambda pull: setattr(server, "most", 8 if pull.queue_offset < 400 else 1_000)
        assert offsets(read(server, whole(0, 40_000))) == list(range(40_000))
        assert max(pull.max_msg_nums for pull in server.asked[-5:]) == 1_000


def test_no_more_pulls_are_under_way_than_may_be() -> None:
    with broker() as server:
        server.fill(0, 3_000)
        assert offsets(read(server, whole(0, 3_000), depth=8)) == list(range(3_000))
        assert 1 < server.together <= 8
        assert server.connections == 1


def test_bytes_read_ahead_are_limited() -> None:
    with broker() as server:
        server.fill(0, 64, size=100_000)
        server.most, held = 1, []
        pieces = read_ranges(
            [whole(0, 64)],
            ClientConfig(server.address),
            {server.name: server.address},
            ahead_bytes=500_000,
            pool=(connections := ConnectionPool()),
        )
        for number, piece in enumerate(pieces, 1):
            assert (piece.start, piece.end) == (number - 1, number)
            held.append(len(server.asked) - number)
        assert max(held) <= 2 * 5, "under way, and heard with the one before"
        assert len(connections) == 1
        connections.close()


def test_a_message_larger_than_any_limit_is_read() -> None:
    with broker() as server:
        server.fill(0, 3, size=4_000_000)
        assert offsets(read(server, whole(0, 3), ahead_bytes=1 << 20)) == [0, 1, 2]


def test_ranges_of_several_brokers_are_read_side_by_side() -> None:
    with broker("a") as first, broker("b") as second:
        for server in (first, second):
            server.fill(0, 2_000)
        # None waits for the end of the other: each gives its second half only after the other was asked.
        first.respond_with, second.respond_with = waiting_for(second), waiting_for(first)
        ranges = [OffsetRange(queue_of(0, name), 0, 2_000) for name in ("a", "b")]
        addresses = {"a": first.address, "b": second.address}
        pieces = read(first, *ranges, addresses=addresses)
        assert all(offsets(pieces, each.queue) == list(range(2_000)) for each in ranges)


def test_ranges_come_in_the_order_in_which_they_were_given() -> None:
    with broker("a") as first, broker("b") as second:
        for server in (first, second):
            server.fill(0, 5_000)
            server.fill(1, 5_000)
        # The first range comes from the broker that answers only when all of the other one was asked for.
        first.respond_with = lambda pull: until(lambda: len(second.asked) >= 10) if pull.queue_id == 0 else None
        ranges = [OffsetRange(queue_of(number, name), 0, 5_000) for number in (0, 1) for name in ("a", "b")]
        addresses = {"a": first.address, "b": second.address}
        pieces = read(first, *ranges, addresses=addresses)
        assert [(piece.queue, number) for piece in pieces for number in offsets([piece])] == [
            (each.queue, number) for each in ranges for number in range(5_000)
        ]


def waiting_for(other: Broker) -> Respond:
    """Answer pulls of a second half when another broker was asked for something."""

    def respond(pull: PullMessage) -> None:
        if pull.queue_offset >= 1_000:
            until(lambda: bool(other.asked))

    return respond


def test_a_record_that_holds_a_batch_may_begin_before_what_was_asked_for() -> None:
    with broker() as server:
        server.fill(0, 10)

        def respond(pull: PullMessage) -> Command | None:
            return Command(0, PullMessageResponse(0, 8, 0, 10), record(4)) if pull.queue_offset == 5 else None

        server.respond_with = respond
        assert read(server, whole(5, 8)) == [RecordChunk(queue_of(), 5, 8, record(4))]


# -- what is lost -----------------------------------------------------------------------------------------------------


def test_what_the_broker_keeps_no_more_is_lost_and_the_rest_is_read() -> None:
    with broker() as server:
        server.fill(0, 3_000).low = 1_700
        lost: list[tuple[OffsetRange, str]] = []
        assert offsets(read(server, whole(100, 3_000), lost=lost)) == list(range(1_700, 3_000))
        assert lost == [(whole(100, 1_700), "the broker keeps messages from offset 1700 on")]
        assert len(server.asked) < 200, "what is lost is not asked for piece by piece"


def test_a_loss_is_an_error_that_names_it_exactly() -> None:
    with broker() as server:
        server.fill(0, 500).low = 170
        with pytest.raises(MessagesLost, match=r"offsets \[100, 170\) of orders@broker-a:0 are lost") as caught:
            read(server, whole(100, 500))
        assert (caught.value.queue, caught.value.start, caught.value.end) == ("orders@broker-a:0", 100, 170)


@pytest.mark.parametrize(
    ("there", "wanted"), [(0, (0, 40)), (0, (10, 40)), (25, (10, 40)), (25, (25, 40)), (5, (10, 40))]
)
def test_offsets_beyond_the_end_of_a_queue_are_lost(there: int, wanted: tuple[int, int]) -> None:
    with broker() as server:
        server.fill(0, there)
        lost: list[tuple[OffsetRange, str]] = []
        start, end = wanted
        assert offsets(read(server, whole(start, end), lost=lost)) == list(range(start, there))
        assert [each for each, _ in lost] == [whole(max(start, there), end)]
        assert f"the queue ends at {there}" in lost[0][1]


def test_a_queue_that_is_still_being_opened_is_waited_for() -> None:
    with broker() as server:
        server.fill(0, 10)

        def respond(_: PullMessage) -> Command | None:
            if len(server.asked) < 3:
                return Command(ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 0, 0, 0))
            return None

        server.respond_with = respond
        assert offsets(read(server, whole(4, 10), settle_ms=20_000)) == list(range(4, 10))


def test_what_a_replica_does_not_have_yet_is_not_lost() -> None:
    with broker() as replica, broker() as master:
        replica.fill(0, 90)
        replica.suggested_id = 1
        lost: list[tuple[OffsetRange, str]] = []
        with pytest.raises(TimedOut, match="broker-a gave nothing of orders@broker-a:0 at offset 9"):
            read(replica, whole(0, 100), lost=lost, patience_ms=300)
        master.fill(0, 100)
        replica.reported, replica.suggested_id = master.address, 0
        assert offsets(read(replica, whole(0, 100), lost=lost)) == list(range(100))
        assert lost == []


def test_a_record_that_is_being_removed_is_lost() -> None:
    with broker() as server:
        held = server.fill(0, 300)
        held.records[40:45] = [None] * 5
        server.on_request, server.most = 5, 5
        lost: list[tuple[OffsetRange, str]] = []
        read(server, whole(0, 300), lost=lost, most=5)
        assert [each for each, _ in lost] == [whole(40, 45)]


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.TOPIC_NOT_EXIST, "topic[orders] not exist"),
        (ResponseCode.INVALID_PARAMETER, "queueId[0] is illegal"),
        (ResponseCode.SYSTEM_ERROR, "queueId[0] is illegal, topic:[orders]"),
    ],
)
def test_a_topic_or_a_queue_that_is_gone_is_lost(code: ResponseCode, remark: str) -> None:
    with broker() as server:
        server.respond_with = lambda _: Command(code, remark=remark)
        lost: list[tuple[OffsetRange, str]] = []
        assert read(server, whole(3, 30), lost=lost) == []
        assert [each for each, _ in lost] == [whole(3, 30)]
        assert remark in lost[0][1]


def test_a_pending_reset_of_the_group_is_no_loss() -> None:
    with broker() as server:
        server.fill(0, 50)

        def respond(_: PullMessage) -> Command | None:
            if len(server.asked) == 1:
                return Command(ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 7, 0, 50), remark="OFFSET_RESET")
            return None

        server.respond_with = respond
        assert offsets(read(server, whole(10, 50))) == list(range(10, 50))


# -- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 2, 5, 17, 40])
def test_a_connection_that_breaks_costs_no_message_and_doubles_none(after: int) -> None:
    with broker() as server:
        server.fill(0, 3_000)
        server.hangs_up_after = after
        assert offsets(read(server, whole(0, 3_000))) == list(range(3_000))
        assert server.connections == 2


def test_a_broker_that_moved_is_found_where_the_name_server_knows_it_to_be() -> None:
    with broker() as old:
        address = old.address
    with broker() as names, broker() as new:
        new.fill(0, 100)
        names.reported = new.address
        assert offsets(read(names, whole(0, 100), addresses={"broker-a": address})) == list(range(100))
        assert names.routes_reported == 1


def test_a_broker_whose_address_nobody_gave_is_looked_for() -> None:
    with broker() as server:
        server.fill(0, 100)
        assert offsets(read(server, whole(0, 100), addresses={})) == list(range(100))
        assert server.routes_reported == 1


def test_a_broker_that_is_gone_for_too_long_is_an_error() -> None:
    with broker() as server:
        address = server.address
    with pytest.raises(
        TimedOut, match=r"broker-a at 127\.0\.0\.1:\d+ gave nothing for \d+ s: .*refused\); check that it"
    ):
        read(server, whole(0, 100), patience_ms=200, addresses={"broker-a": address})


def test_a_broker_that_shuts_down_is_waited_for() -> None:
    with broker() as server:
        server.fill(0, 100)

        def respond(_: PullMessage) -> Command | None:
            if len(server.asked) in (2, 3):
                return Command(ResponseCode.SYSTEM_ERROR, remark="store getMessage return null")
            return None

        server.respond_with = respond
        assert offsets(read(server, whole(0, 100))) == list(range(100))


@pytest.mark.parametrize(
    "code", [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE]
)
def test_a_busy_broker_is_left_alone_for_a_while(code: ResponseCode) -> None:
    with broker() as server:
        server.fill(0, 1_000)

        def respond(_: PullMessage) -> Command | None:
            return Command(code, remark="[REJECTREQUEST]") if 5 < len(server.asked) < 12 else None

        server.respond_with = respond
        assert offsets(read(server, whole(0, 1_000))) == list(range(1_000))
        assert server.connections == 1
        server.respond_with = lambda _: Command(code, remark="[REJECTREQUEST]")
        server.asked.clear()
        with pytest.raises(TimedOut, match="REJECTREQUEST"):
            read(server, whole(0, 1_000), patience_ms=300)
        assert len(server.asked) < 20


@pytest.mark.parametrize(
    ("code", "error"),
    [(ResponseCode.NO_PERMISSION, NoPermission), (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, GroupNotFound)],
)
def test_a_refusal_is_reported_at_once(code: ResponseCode, error: type[Exception]) -> None:
    with broker() as server:
        server.respond_with = lambda _: Command(code, remark="no")
        with pytest.raises(error):
            read(server, whole(0, 1_000))


@pytest.mark.parametrize(
    "response",
    [
        Command(0, PullMessageResponse(0, 3, 0, 100), record(9)),
        Command(0, PullMessageResponse(0, -1, 0, 100), record(9)),
        Command(ResponseCode.PULL_RETRY_IMMEDIATELY, PullMessageResponse(0, 9, 0, 100)),
        Command(ResponseCode.PULL_NOT_FOUND, PullMessageResponse(0, 0, 0, 100)),
        Command(ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 0, -5, 1 << 60)),
        Command(0, {"nextBeginOffset": "ten"}, record(9)),
        Command(0, {}, record(9)),
        Command(0, PullMessageResponse(0, 30, 0, 100)),
    ],
)
def test_an_answer_that_leads_nowhere_is_not_asked_for_for_ever(response: Command) -> None:
    with broker() as server:
        server.respond_with = lambda _: response
        with pytest.raises(TimedOut, match="broker-a"):
            read(server, whole(9, 50), patience_ms=200)
        assert len(server.asked) < 30


def test_an_offset_out_of_this_world_ends_the_range_and_no_more() -> None:
    with broker() as server:
        server.respond_with = lambda _: Command(0, PullMessageResponse(0, (1 << 63) - 1, 0, 1 << 60), record(9))
        assert read(server, whole(9, 50)) == [RecordChunk(queue_of(), 9, 50, record(9))]
        server.respond_with = lambda _: Command(
            ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 0, (1 << 63) - 1, 1 << 60)
        )
        lost: list[tuple[OffsetRange, str]] = []
        assert read(server, whole(9, 50), lost=lost) == []
        assert [each for each, _ in lost] == [whole(9, 50)]


# -- connections ------------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_by_the_next_read() -> None:
    connections = ConnectionPool()
    with broker() as server:
        server.fill(0, 1_000)
        for _ in range(5):
            assert offsets(read(server, whole(0, 1_000), connections=connections)) == list(range(1_000))
        assert server.connections == 1
        assert len(connections) == 1
    connections.close()


def test_a_connection_whose_server_hung_up_while_it_rested_is_replaced() -> None:
    connections = ConnectionPool()
    with broker() as server:
        server.fill(0, 100)
        read(server, whole(0, 100), connections=connections)
        server.cut()
        assert offsets(read(server, whole(0, 100), connections=connections)) == list(range(100))
        assert server.connections == 2
    connections.close()


def test_a_read_that_is_given_up_closes_its_connection_and_leaves_none_behind() -> None:
    connections = ConnectionPool()
    with broker() as server:
        server.fill(0, 10_000)
        pieces = read_ranges(
            [whole(0, 10_000)], ClientConfig(server.address), {server.name: server.address}, pool=connections
        )
        next(pieces)
        pieces.close()
        assert len(connections) == 0, "answers are still to come on it"
    connections.close()


def test_a_read_that_fails_leaves_no_connection_behind() -> None:
    connections = ConnectionPool()
    with broker() as server:
        server.fill(0, 5_000).low = 4_000
        with pytest.raises(MessagesLost):
            read(server, whole(0, 5_000), connections=connections)
    assert len(connections) <= 1
    connections.close()
