import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from steelyard.balance.producer.queue_selection import make_selector, select_queue
from steelyard.errors import ConfigurationError, RowRefused
from steelyard.model import Message, Queue
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.spark.arrow_buffers import offsets_and_bytes
from steelyard.spark.deterministic_ids import DeterministicIds
from steelyard.spark.encode import encode_rows, java_hashes, queue_indexes
from steelyard.spark.schema import IGNORED_COLUMNS, WriteColumns
from steelyard.wire.batch import BatchItem, decode_batch, encode_batch, make_batch_item
from steelyard.wire.properties import decode_properties
from tests.spark.arrow_frames import TYPES, arrow, schema

LIMIT = 1 << 22


def items(columns: Mapping[str, Sequence[Any]], *part_of: str) -> list[BatchItem]:
    batch = arrow(columns)
    found = WriteColumns.of(schema(columns), topic="orders")
    encoded = encode_rows(batch, found, DeterministicIds(*part_of), max_bytes=LIMIT)
    return list(decode_batch(offsets_and_bytes(encoded)[1].tobytes()))


def properties(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, str]]:
    """Return what is sent as the properties of rows, but for what every row has."""
    parsed = [decode_properties(item.properties) for item in items(columns)]
    return [{name: text for name, text in each.items() if name not in ("UNIQ_KEY", "WAIT")} for each in parsed]


# -- as the client would ----------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)
names = texts.filter(lambda name: name not in RESERVED_PROPERTIES)
keys = st.lists(texts.filter(lambda key: " " not in key), max_size=3)
rows = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=200),
        "tags": st.none() | texts,
        "keys": st.none() | keys,
        "properties": st.none() | st.dictionaries(names, texts, max_size=4),
    }
)


@given(st.lists(rows, min_size=1, max_size=8))
def test_rows_become_what_the_client_makes_of_such_messages(given_rows: list[dict[str, Any]]) -> None:
    made = items({name: [row[name] for row in given_rows] for name in given_rows[0]})
    for item, row in zip(made, given_rows, strict=True):
        message = Message(
            "orders", row["body"], tags=row["tags"], keys=row["keys"] or (), properties=row["properties"] or {}
        )
        unique_key = decode_properties(item.properties)["UNIQ_KEY"]
        sent = make_batch_item(message, unique_key=unique_key)
        assert (item.flag, item.body) == (sent.flag, sent.body)
        assert decode_properties(item.properties) == decode_properties(sent.properties)
        assert len(item.properties) == len(sent.properties)
        assert re.fullmatch("[0-9A-F]{32}", unique_key)


@given(st.lists(rows, min_size=2, max_size=8), st.data())
def test_a_part_of_a_batch_is_encoded_as_if_it_were_alone(
    given_rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    columns = {name: [row[name] for row in given_rows] for name in given_rows[0]}
    start = data.draw(st.integers(0, len(given_rows) - 1))
    found = WriteColumns.of(schema(columns), topic="orders")
    ids = DeterministicIds()
    parts = [
        encode_rows(part, found, ids, max_bytes=LIMIT)
        for part in (arrow(columns).slice(0, start), arrow(columns).slice(start))
    ]
    assert [item for part in parts for item in decode_batch(offsets_and_bytes(part)[1].tobytes())] == items(columns)


def test_the_bytes_of_the_joined_column_are_a_batch() -> None:
    columns = {"body": [b"one", b"three"]}
    encoded = encode_rows(
        arrow(columns), WriteColumns.of(schema(columns), topic="orders"), DeterministicIds(), max_bytes=LIMIT
    )
    assert offsets_and_bytes(encoded)[1].tobytes() == encode_batch(items(columns))


def test_bodies_and_texts_of_any_width_are_taken() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["grün"], pa.large_string()), pa.array(["paid"], pa.large_string())], names=["body", "tags"]
    )
    found = WriteColumns.of(StructType().add("body", "string").add("tags", "string"), topic="orders")
    (item,) = decode_batch(
        offsets_and_bytes(encode_rows(batch, found, DeterministicIds(), max_bytes=LIMIT))[1].tobytes()
    )
    assert item.body.decode() == "grün"
    assert decode_properties(item.properties)["TAGS"] == "paid"


def test_a_batch_without_rows_is_nothing() -> None:
    assert items({"body": [], "tags": [], "properties": []}) == []


# -- properties -------------------------------------------------------------------------------------------------------


def test_what_clients_and_brokers_write_themselves_is_left_out_of_the_map() -> None:
    read = {"region": "eu", "UNIQ_KEY": "old", "WAIT": "false", "TRACE_ON": "true", "CLUSTER": "c", "DELAY": "3"}
    (item,) = items({"body": [b"1"], "properties": [read | {"__SHARDINGKEY": "7", "INNER_NUM": "2"}]})
    kept = decode_properties(item.properties)
    assert kept.pop("UNIQ_KEY") != "old"
    assert kept == {"region": "eu", "__SHARDINGKEY": "7", "WAIT": "true"}


def test_columns_of_tags_and_keys_decide_and_without_them_the_map_does() -> None:
    read = {"TAGS": "old", "KEYS": "a b"}
    assert properties({"body": [b"1"], "properties": [read]}) == [{"TAGS": "old", "KEYS": "a b"}]
    assert properties({"body": [b"1"], "properties": [read], "tags": ["new"]}) == [{"TAGS": "new", "KEYS": "a b"}]
    assert properties({"body": [b"1"], "properties": [read], "tags": [None], "keys": ["c"]}) == [{"KEYS": "c"}]


def test_null_values_and_null_maps_say_nothing() -> None:
    assert properties({"body": [b"1", b"2", b"3"], "properties": [{"a": None, "b": "2"}, None, {}]}) == [
        {"b": "2"},
        {},
        {},
    ]


def test_keys_are_a_text_with_blanks_or_a_list() -> None:
    assert properties({"body": [b"1", b"2"], "keys": ["a b", None]}) == [{"KEYS": "a b"}, {}]
    assert properties({"body": [b"1", b"2", b"3"], "keys": [["a", "b"], [], None]}) == [{"KEYS": "a b"}, {}, {}]


# -- what cannot be sent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "column", "complaint"),
    [
        ({"body": [b"1", None]}, "body", "its body is null"),
        ({"body": [b"1", b""]}, "body", "its body is empty"),
        ({"body": [b"1", bytes(LIMIT + 1)]}, "body", f"its body has {LIMIT + 1} bytes, the limit is {LIMIT}"),
        ({"body": [b"1", b"2"], "tags": [None, ""]}, "tags", "its text is empty"),
        ({"body": [b"1", b"2"], "tags": ["a", "b\x02c"]}, "tags", "one of the separators"),
        ({"body": [b"1", b"2"], "keys": ["a", "b\x01c"]}, "keys", "one of the separators"),
        ({"body": [b"1", b"2"], "keys": [["a"], ["b", "c d"]]}, "keys", "contains a blank"),
        ({"body": [b"1", b"2"], "keys": [["a"], ["b", None]]}, "keys", "is null"),
        ({"body": [b"1", b"2"], "keys": [["a"], [""]]}, "keys", "is empty"),
        ({"body": [b"1", b"2"], "properties": [{"a": "1"}, {"b": ""}]}, "properties", "the value of the property 'b'"),
        ({"body": [b"1", b"2"], "properties": [None, {"": "1"}]}, "properties", "a name of the property ''"),
        ({"body": [b"1", b"2"], "properties": [{}, {"a": "x\x02y"}]}, "properties", "one of the separators"),
        ({"body": [b"1", b"2"], "properties": [{}, {"a": "x" * 32_768}]}, "properties", "the limit is 32767"),
        ({"body": [b"1", b"2"], "id": ["1", None]}, "id", "fill it"),
        ({"body": [b"1", b"2"], "id": ["1", ""]}, "id", "is empty"),
        ({"body": [b"1", b"2"], "id": ["1", "x\x02y"]}, "id", "one of the separators"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(columns: Mapping[str, Sequence[Any]], column: str, complaint: str) -> None:
    with pytest.raises(RowRefused, match="row 1 cannot be sent") as refused:
        items(columns)
    assert (refused.value.row, refused.value.column) == (1, column)
    assert complaint in str(refused.value)


def test_a_row_is_numbered_within_its_partition() -> None:
    error = RowRefused("its body is null", row=1, column="body", next_step="give it one").behind(20_000, 7)
    assert str(error) == "row 20001 of partition 7 cannot be sent: in the column 'body' its body is null; give it one"


# -- ids --------------------------------------------------------------------------------------------------------------


few_rows = st.fixed_dictionaries(
    {
        "body": st.sampled_from([b"1", b"2"]),
        "tags": st.sampled_from([None, "1"]),
        "keys": st.sampled_from([None, ["1"]]),
    }
)


def ids(columns: Mapping[str, Sequence[Any]], *part_of: str) -> list[str]:
    return [decode_properties(item.properties)["UNIQ_KEY"] for item in items(columns, *part_of)]


@given(st.lists(few_rows, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_row_has_its_id_whatever_order_its_task_has(given_rows: list[dict[str, Any]], chance: Random) -> None:
    def by_row(shown: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
        columns = {name: [row[name] for row in shown] for name in shown[0]}
        made = ids(columns)
        assert len(set(made)) == len(shown)
        return Counter((repr(sorted(row.items(), key=str)), each) for row, each in zip(shown, made, strict=True))

    again = chance.sample(given_rows, len(given_rows))
    assert by_row(given_rows) == by_row(again)


@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=9))
def test_rows_that_say_the_same_have_ids_of_their_own_in_all_batches_of_a_task(batches: list[list[int]]) -> None:
    made = DeterministicIds("a query")
    found = [made.next_ids(pa.array([b"%d" % body for body in batch], pa.binary())).to_pylist() for batch in batches]
    one = DeterministicIds("a query").next_ids(
        pa.array([b"%d" % body for batch in batches for body in batch], pa.binary())
    )
    assert [each for batch in found for each in batch] == one.to_pylist()
    assert len(set(one.to_pylist())) == len(one)


def test_whatever_tells_rows_apart_is_in_their_ids() -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"1"},
        {"body": b"2"},
        {"body": b"1", "tags": "a"},
        {"body": b"1", "keys": ["a"]},
        {"body": b"1", "key": "a"},
        {"body": b"1", "key": "b"},
        {"body": b"1", "delay": 1},
        {"body": b"1", "topic": "a"},
        {"body": b"1", "properties": {"key": "a"}},
        {"body": b"1\x01key\x01a\x02"},
    ]
    assert len({ids({name: [value] for name, value in row.items()})[0] for row in rows}) == len(rows)


def test_other_queries_batches_and_partitions_have_other_ids() -> None:
    parts = [("q", "1", "0"), ("q", "1", "1"), ("q", "2", "0"), ("p", "1", "0"), ("q", "11"), ("q1", "1")]
    assert len({ids({"body": [b"1"]}, *part)[0] for part in parts}) == len(parts)


def test_a_column_of_ids_is_the_rows_ids() -> None:
    assert ids({"body": [b"1", b"1"], "id": ["order-1", "order-2"]}) == ["order-1", "order-2"]
    assert ids({"body": [b"1", b"1"], "id": [7, -8]}) == ["7", "-8"]


def test_rows_of_a_topic_are_told_apart_by_where_they_were() -> None:
    columns: dict[str, list[Any]] = {
        "topic": ["orders"] * 3,
        "broker": ["a", "a", "b"],
        "queue_id": [0, 0, 0],
        "offset": [7, 8, 7],
    }
    there = WriteColumns.of(schema({"body": [b"1"], **columns}), topic="copy")
    assert there.source is not None
    assert len(set(ids({"body": [b"1"] * 3, **columns}))) == 3
    # One message may become several rows, each of which has an id of its own.
    exploded: dict[str, list[Any]] = {
        "topic": ["orders"] * 2,
        "broker": ["a"] * 2,
        "queue_id": [0] * 2,
        "offset": [7] * 2,
    }
    assert len(set(ids({"body": [b"1", b"2"], **exploded}))) == 2


def test_columns_that_only_look_like_a_source_are_none() -> None:
    there = StructType().add("body", "binary").add("topic", "string").add("broker", "string").add("offset", "long")
    assert WriteColumns.of(there, topic=None).source is None
    assert WriteColumns.of(there.add("queue_id", "string"), topic=None).source is None


# -- keys -------------------------------------------------------------------------------------------------------------

QUEUES = [Queue("orders", "broker-a", number) for number in range(7)]
BY_HASH = make_selector("hash")


def by_the_client(key: str | int) -> int:
    return select_queue(BY_HASH, QUEUES, Message("orders", b"1"), key).queue_id


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=20))
def test_a_key_goes_to_the_queue_that_the_client_sends_it_to(given_keys: list[str | None]) -> None:
    numbers = queue_indexes(pa.array(given_keys, pa.string()), len(QUEUES))
    assert numbers.tolist() == [-1 if key is None else by_the_client(key) for key in given_keys]


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_a_number_goes_to_the_queue_that_the_client_sends_it_to(given_keys: list[int | None]) -> None:
    numbers = queue_indexes(pa.array(given_keys, pa.int64()), len(QUEUES))
    assert numbers.tolist() == [-1 if key is None else by_the_client(key) for key in given_keys]


def test_the_most_negative_hash_has_a_queue() -> None:
    key = "polygenelubricants"  # whose hash in Java is the one number without a positive twin
    assert java_hashes(pa.array([key])).tolist() == [-(1 << 31)]
    assert queue_indexes(pa.array([key]), len(QUEUES)).tolist() == [by_the_client(key)]


def test_keys_of_a_part_of_a_batch_are_hashed_as_such() -> None:
    column = pa.array(["a", "größe", "c", None])
    assert java_hashes(column.slice(1)).tolist() == java_hashes(column).tolist()[1:]
    assert java_hashes(column.cast(pa.large_string())).tolist() == java_hashes(column).tolist()


# -- columns ----------------------------------------------------------------------------------------------------------


def test_a_frame_that_was_read_can_be_written() -> None:
    read = StructType().add("topic", "string")
    for name in IGNORED_COLUMNS:
        read = read.add(name, "string")
    for name in ("body", "tags", "keys", "properties"):
        read = read.add(name, TYPES[name])
    assert WriteColumns.of(read, topic=None).body == 1 + len(IGNORED_COLUMNS)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (StructType().add("value", "binary"), "no column 'value'; did you mean 'body'?"),
        (StructType().add("body", "binary").add("tgas", "string"), "no column 'tgas'; did you mean 'tags'?"),
        (StructType().add("body", "binary").add("amount", "double"), "no column 'amount'; rename or drop it"),
        (
            StructType().add("tags", "string"),
            "the rows have no column 'body'; select a column AS body",
        ),
        (StructType().add("body", DoubleType()), "the column 'body' is double; cast it: it must be binary or string"),
        (StructType().add("body", "binary").add("delay", "string"), "'delay' is string; cast it: it must be a whole"),
        (StructType().add("body", "binary").add("Body", "binary"), "two columns 'body'"),
    ],
)
def test_a_column_that_cannot_be_is_reported_with_what_to_do(frame: StructType, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        WriteColumns.of(frame, topic="orders")
    assert complaint in str(error.value)


def test_rows_need_a_topic_from_somewhere() -> None:
    with pytest.raises(ConfigurationError, match="give the option 'topic', or a column 'topic'"):
        WriteColumns.of(StructType().add("body", "binary"), topic=None)
    assert WriteColumns.of(StructType().add("Body", "binary").add("TOPIC", StringType()), topic=None).topic == 1


def test_a_key_may_be_a_number() -> None:
    assert WriteColumns.of(StructType().add("body", "binary").add("key", LongType()), topic="orders").key == 1
