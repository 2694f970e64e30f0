from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.bulk.bulk_sender import MAX_BATCH_MESSAGES, EncodedBatch
from steelyard.client.config import ClientConfig
from steelyard.errors import RowRefused
from steelyard.model import Queue
from steelyard.spark.deterministic_ids import DeterministicIds
from steelyard.spark.encode import message_batches, split_batch
from steelyard.spark.options import WriteOptions
from steelyard.spark.schema import WriteColumns
from steelyard.wire.batch import decode_batch
from tests.spark.arrow_frames import arrow, schema

QUEUES = {topic: tuple(Queue(topic, "broker-a", number) for number in range(3)) for topic in ("orders", "audit")}
IDS = DeterministicIds("a query")


def bundles(
    columns: dict[str, list[Any]], *, topic: str | None = "orders", most_bytes: int = 1 << 20
) -> list[EncodedBatch]:
    options = WriteOptions(client_config=ClientConfig("mq:9876"), topic=topic, max_batch_bytes=most_bytes)
    found = WriteColumns.of(schema(columns), topic=topic)
    return list(message_batches(arrow(columns), found, options, IDS, QUEUES.__getitem__))


def bodies(bundle: EncodedBatch) -> list[bytes]:
    return [item.body for item in decode_batch(bundle.items)]


row = st.tuples(st.integers(1, 300), st.sampled_from(sorted(QUEUES)), st.none() | st.sampled_from("abcdef"))


@given(st.lists(row, min_size=1, max_size=40), st.integers(60, 900))
def test_every_row_is_in_one_bundle_and_the_order_of_a_queue_is_that_of_the_rows(
    rows: list[tuple[int, str, str | None]], most_bytes: int
) -> None:
    sent = [b"%d " % number + b"x" * size for number, (size, _, _) in enumerate(rows)]
    columns: dict[str, list[Any]] = {
        "body": sent,
        "topic": [topic for _, topic, _ in rows],
        "key": [key for _, _, key in rows],
    }
    by_place: dict[tuple[str, Queue | None], list[bytes]] = defaultdict(list)
    for bundle in bundles(columns, topic=None, most_bytes=most_bytes):
        held = bodies(bundle)
        assert len(held) == bundle.messages
        assert len(bundle.items) <= most_bytes or (bundle.is_single and bundle.messages == 1)
        by_place[bundle.topic, bundle.queue] += held
    assert sorted(body for held in by_place.values() for body in held) == sorted(sent)
    for (topic, queue), held in by_place.items():
        numbers = [int(body.split()[0]) for body in held]
        assert numbers == sorted(numbers)
        for number in numbers:
            assert rows[number][1] == topic
            assert (rows[number][2] is None) == (queue is None)
            assert queue is None or queue.topic == topic


def test_rows_of_one_key_have_one_queue() -> None:
    keys = ["a", "b", "c", "d"] * 5
    queue_of: dict[str, Queue | None] = {}
    for bundle in bundles({"body": [key.encode() for key in keys], "key": keys}):
        for body in bodies(bundle):
            assert queue_of.setdefault(body.decode(), bundle.queue) == bundle.queue


def test_a_batch_has_no_more_messages_than_an_answer_has_room_for_ids() -> None:
    sizes = [bundle.messages for bundle in bundles({"body": [b"1"] * (2 * MAX_BATCH_MESSAGES + 1)})]
    assert sizes == [MAX_BATCH_MESSAGES, MAX_BATCH_MESSAGES, 1]


def test_the_option_counts_more_than_the_column() -> None:
    (bundle,) = bundles({"body": [b"1"], "topic": ["audit"]}, topic="orders")
    assert bundle.topic == "orders"


def test_rows_with_a_delay_go_alone() -> None:
    found = bundles({"body": [b"1", b"2", b"3", b"4"], "delay": [None, 3_000, 0, 1]})
    assert sorted((bodies(each), each.is_single, each.delay_ms) for each in found) == [
        ([b"1"], False, 0),
        ([b"2"], True, 3_000),
        ([b"3"], False, 0),
        ([b"4"], True, 1),
    ]


def test_rows_for_a_topic_of_retries_go_alone() -> None:
    columns = {"body": [b"1", b"2"]}
    options = WriteOptions(client_config=ClientConfig("mq:9876"), topic="%RETRY%billing")
    found = WriteColumns.of(schema(columns), topic="orders")
    assert [each.is_single for each in message_batches(arrow(columns), found, options, IDS, lambda _: [])] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"body": [b"1", b"2"], "topic": ["orders", None]}, "row 1 cannot be sent: in the column 'topic' there is no"),
        ({"body": [b"1", b"2"], "topic": ["orders", ""]}, "fill it, or give the option 'topic'"),
        ({"body": [b"1", b"2"], "topic": ["orders"] * 2, "delay": [3, -1]}, "the delay is -1; give milliseconds, 0 or"),
    ],
)
def test_a_row_without_a_place_or_with_a_delay_that_cannot_be_is_named(
    columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(RowRefused) as refused:
        bundles(columns, topic=None)
    assert message in str(refused.value)


def test_a_very_large_batch_is_worked_on_in_pieces() -> None:
    batch = arrow({"body": [bytes(1 << 20)] * 80})
    pieces = list(split_batch(batch))
    assert len(pieces) > 2
    assert sum(piece.num_rows for piece in pieces) == 80
    assert list(split_batch(arrow({"body": []}))) == []
