from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StringType, StructType
from tests.spark.frames import TYPES, arrow, schema

from steelyard.balance.selectors import select, selector
from steelyard.errors import ConfigurationError, RowRefused
from steelyard.model import Message, Queue
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.spark.encoding.row_bytes import span_of
from steelyard.spark.encoding.row_columns import IGNORED, RowColumns
from steelyard.spark.encoding.row_ids import RowIds
from steelyard.spark.encoding.row_keys import java_hashes, queue_numbers
from steelyard.spark.encoding.rows import encode
from steelyard.wire.batch import BatchItem, encode_batch, item_of, read_batch
from steelyard.wire.properties import parse_properties

LIMIT = 1 << 22
IDS = RowIds("a query", "3", "0")


def items(columns: Mapping[str, Sequence[Any]], first: int = 0) -> list[BatchItem]:
    batch = arrow(columns)
    found = RowColumns.of(schema(columns), topic="orders")
    encoded = encode(batch, found, IDS, first=first, most_bytes=LIMIT)
    return list(read_batch(span_of(encoded)[1].tobytes()))


def properties(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, str]]:
    """Return what is sent as the properties of rows, but for what every row has."""
    parsed = [parse_properties(item.properties) for item in items(columns)]
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


@given(st.lists(rows, min_size=1, max_size=8), st.integers(0, 70_000))
def test_rows_become_what_the_client_makes_of_such_messages(given_rows: list[dict[str, Any]], first: int) -> None:
    made = items({name: [row[name] for row in given_rows] for name in given_rows[0]}, first)
    for number, (item, row) in enumerate(zip(made, given_rows, strict=True), first):
        message = Message(
            "orders", row["body"], tags=row["tags"], keys=row["keys"] or (), properties=row["properties"] or {}
        )
        unique_key = parse_properties(item.properties)["UNIQ_KEY"]
        sent = item_of(message, unique_key=unique_key)
        assert (item.flag, item.body) == (sent.flag, sent.body)
        assert parse_properties(item.properties) == parse_properties(sent.properties)
        assert len(item.properties) == len(sent.properties)
        assert int(unique_key[20:], 16) == number


@given(st.lists(rows, min_size=2, max_size=8), st.data())
def test_a_part_of_a_batch_is_encoded_as_if_it_were_alone(
    given_rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    columns = {name: [row[name] for row in given_rows] for name in given_rows[0]}
    start = data.draw(st.integers(0, len(given_rows) - 1))
    found = RowColumns.of(schema(columns), topic="orders")
    part = encode(arrow(columns).slice(start), found, IDS, first=start, most_bytes=LIMIT)
    assert list(read_batch(span_of(part)[1].tobytes())) == items(columns)[start:]


def test_the_bytes_of_the_joined_column_are_a_batch() -> None:
    columns = {"body": [b"one", b"three"]}
    encoded = encode(arrow(columns), RowColumns.of(schema(columns), topic="orders"), IDS, first=0, most_bytes=LIMIT)
    assert span_of(encoded)[1].tobytes() == encode_batch(items(columns))


def test_bodies_and_texts_of_any_width_are_taken() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["grün"], pa.large_string()), pa.array(["paid"], pa.large_string())], names=["body", "tags"]
    )
    found = RowColumns.of(StructType().add("body", "string").add("tags", "string"), topic="orders")
    (item,) = read_batch(span_of(encode(batch, found, IDS, first=0, most_bytes=LIMIT))[1].tobytes())
    assert item.body.decode() == "grün"
    assert parse_properties(item.properties)["TAGS"] == "paid"


def test_a_batch_without_rows_is_nothing() -> None:
    assert items({"body": [], "tags": [], "properties": []}) == []


# -- properties -------------------------------------------------------------------------------------------------------


def test_what_clients_and_brokers_write_themselves_is_left_out_of_the_map() -> None:
    read = {"region": "eu", "UNIQ_KEY": "old", "WAIT": "false", "TRACE_ON": "true", "CLUSTER": "c", "DELAY": "3"}
    (item,) = items({"body": [b"1"], "properties": [read | {"__SHARDINGKEY": "7", "INNER_NUM": "2"}]})
    kept = parse_properties(item.properties)
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
    ("columns", "column", "said"),
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
    ],
)
def test_a_row_that_cannot_be_sent_is_named(columns: Mapping[str, Sequence[Any]], column: str, said: str) -> None:
    with pytest.raises(RowRefused, match="row 1 cannot be sent") as refused:
        items(columns)
    assert (refused.value.row, refused.value.column) == (1, column)
    assert said in str(refused.value)


def test_a_row_is_numbered_within_its_partition() -> None:
    error = RowRefused("its body is null", row=1, column="body", next_step="give it one").behind(20_000, 7)
    assert str(error) == "row 20001 of partition 7 cannot be sent: in the column 'body' its body is null; give it one"


# -- ids --------------------------------------------------------------------------------------------------------------


def test_ids_are_those_of_the_row_whatever_batch_it_comes_in() -> None:
    whole = IDS.texts(first=0, count=140_000)
    assert np.array_equal(whole[65_000:66_000], IDS.texts(first=65_000, count=1_000))
    assert len({line.tobytes() for line in whole}) == 140_000


def test_other_queries_batches_and_partitions_have_other_ids() -> None:
    parts = [("q", "1", "0"), ("q", "1", "1"), ("q", "2", "0"), ("p", "1", "0"), ("q", "11"), ("q1", "1")]
    assert len({RowIds(*part).texts(first=0, count=1).tobytes() for part in parts}) == len(parts)


# -- keys -------------------------------------------------------------------------------------------------------------

QUEUES = [Queue("orders", "broker-a", number) for number in range(7)]
BY_HASH = selector("hash")


def by_the_client(key: str | int) -> int:
    return select(BY_HASH, QUEUES, Message("orders", b"1"), key).queue_id


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=20))
def test_a_key_goes_to_the_queue_that_the_client_sends_it_to(given_keys: list[str | None]) -> None:
    numbers = queue_numbers(pa.array(given_keys, pa.string()), len(QUEUES))
    assert numbers.tolist() == [-1 if key is None else by_the_client(key) for key in given_keys]


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_a_number_goes_to_the_queue_that_the_client_sends_it_to(given_keys: list[int | None]) -> None:
    numbers = queue_numbers(pa.array(given_keys, pa.int64()), len(QUEUES))
    assert numbers.tolist() == [-1 if key is None else by_the_client(key) for key in given_keys]


def test_the_most_negative_hash_has_a_queue() -> None:
    key = "polygenelubricants"  # whose hash in Java is the one number without a positive twin
    assert java_hashes(pa.array([key])).tolist() == [-(1 << 31)]
    assert queue_numbers(pa.array([key]), len(QUEUES)).tolist() == [by_the_client(key)]


def test_keys_of_a_part_of_a_batch_are_hashed_as_such() -> None:
    column = pa.array(["a", "größe", "c", None])
    assert java_hashes(column.slice(1)).tolist() == java_hashes(column).tolist()[1:]
    assert java_hashes(column.cast(pa.large_string())).tolist() == java_hashes(column).tolist()


# -- columns ----------------------------------------------------------------------------------------------------------


def test_a_frame_that_was_read_can_be_written() -> None:
    read = StructType().add("topic", "string")
    for name in IGNORED:
        read = read.add(name, "string")
    for name in ("body", "tags", "keys", "properties"):
        read = read.add(name, TYPES[name])
    assert RowColumns.of(read, topic=None).body == 1 + len(IGNORED)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (StructType().add("value", "binary"), "no column 'value'; did you mean 'body'?"),
        (StructType().add("body", "binary").add("tgas", "string"), "no column 'tgas'; did you mean 'tags'?"),
        (StructType().add("body", "binary").add("amount", "double"), "no column 'amount'; rename or drop it"),
        (
            StructType().add("tags", "string"),
            "the rows have no column 'body'; select what the message is to say AS body",
        ),
        (StructType().add("body", DoubleType()), "the column 'body' is double; cast it: it must be binary or string"),
        (StructType().add("body", "binary").add("delay", "string"), "'delay' is string; cast it: it must be a whole"),
        (StructType().add("body", "binary").add("Body", "binary"), "two columns 'body'"),
    ],
)
def test_a_column_that_cannot_be_is_told_with_what_to_do(frame: StructType, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        RowColumns.of(frame, topic="orders")
    assert said in str(error.value)


def test_rows_need_a_topic_from_somewhere() -> None:
    with pytest.raises(ConfigurationError, match="give the option 'topic', or a column 'topic'"):
        RowColumns.of(StructType().add("body", "binary"), topic=None)
    assert RowColumns.of(StructType().add("Body", "binary").add("TOPIC", StringType()), topic=None).topic == 1


def test_a_key_may_be_a_number() -> None:
    assert RowColumns.of(StructType().add("body", "binary").add("key", LongType()), topic="orders").key == 1
