import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.bulk.range_reader import RecordChunk
from steelyard.model import Queue
from steelyard.model.message import KEYS, TAGS
from steelyard.spark.decode import decode
from steelyard.wire.properties import decode_properties
from tests.spark.column_values import record_of
from tests.wire.stored_values import property_texts

_QUEUE = Queue("orders", "broker-a", 0)
_COLUMNS = ("tags", "keys", "properties")
_PLAIN = b"TAGS\x01paid\x02KEYS\x01a b\x02region\x01eu\x02"


def _rows(*texts: bytes) -> list[dict[str, object]]:
    records = b"".join([record_of(offset, properties=text) for offset, text in enumerate(texts)])
    batch = decode([RecordChunk(_QUEUE, 0, len(texts), records)], _COLUMNS)
    batch.validate(full=True)
    return batch.to_pylist()


def _expected(*texts: bytes) -> list[dict[str, object]]:
    parsed = [decode_properties(text) for text in texts]
    return [{"tags": each.get(TAGS), "keys": each.get(KEYS), "properties": list(each.items())} for each in parsed]


@given(st.lists(st.one_of(st.just(_PLAIN), property_texts, st.binary(max_size=40)), min_size=1, max_size=12))
def test_any_texts_are_read_as_a_consumer_reads_them(texts: list[bytes]) -> None:
    assert _rows(*texts) == _expected(*texts)


@given(property_texts, st.integers(1, 40))
def test_the_same_text_again_and_again_is_read_as_a_consumer_reads_it(text: bytes, times: int) -> None:
    assert _rows(*[text] * times) == _expected(*[text] * times)


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"\x02",
        b"TAGS\x01paid",
        b"TAGS\x01\x02KEYS\x01b\x02",
        b"TAGS\x02KEYS\x01b\x02",
        b"\x01paid\x02KEYS\x01b\x02",
        b"TAGS\x01pa\x01id\x02KEYS\x01b\x02region\x01us\x02",
        b"TAGS\x01one\x02TAGS\x01two\x02",
        b"TAGS\x01one\x02TAGS\x01\x02",
        b"KEYS\x01b\x02__CRC32#\x010123456789\x02",
        b"__CRC32#\x01one\x02KEYS\x01b\x02__CRC32#\x01two\x02",
        b"TAGS\x01\xff\xfe\x02\xff\x01one\x02\xfe\x01two\x02",
        "TAGS\x01größe\x02".encode(),
        b"TAGS\x01\xed\xa0\x80\x02",
        b"region\x01us\x02KEYS\x01b\x02TAGS\x01new\x02",
        b"TAGZ\x01a\x02KEYS\x01b\x02region\x01us\x02",
        b"x-header-number-one\x01a\x02x-header-number-two\x01b\x02y-header-number-one\x01c\x02",
        b"\x00TAGS\x01a\x02TAGS\x00\x01b\x02",
    ],
)
def test_odd_texts_are_read_among_plain_ones_and_alone(odd: bytes) -> None:
    for texts in ([odd], [odd] * 3, [_PLAIN, odd, _PLAIN], [odd, _PLAIN], [_PLAIN, odd]):
        assert _rows(*texts) == _expected(*texts)


def test_a_text_with_thousands_of_names_is_read() -> None:
    many = b"".join(b"%d\x01x\x02" % number for number in range(4_000))
    assert _rows(many, _PLAIN, many) == _expected(many, _PLAIN, many)


def test_no_name_stands_twice_in_a_map() -> None:
    twice = b"a\x01one\x02b\x01x\x02a\x01two\x02"
    (row,) = _rows(twice)
    assert row["properties"] == [("a", "two"), ("b", "x")]


def test_what_a_broker_adds_to_each_message_of_a_batch_replaces_what_stood_there() -> None:
    added = b"WAIT\x01false\x02CLUSTER\x01c\x02"
    alike = [b"UNIQ_KEY\x01%d\x02WAIT\x01true\x02KEYS\x01k\x02" % number + added for number in range(3)]
    unlike = [b"WAIT\x01true\x02" + added, _PLAIN, b"", *alike]
    assert _rows(*alike) == _expected(*alike)
    assert _rows(*unlike) == _expected(*unlike)


def test_what_is_not_unicode_never_reaches_spark() -> None:
    first, second = _rows(b"TAGS\x01\xff\x02name\x01\xe4\x02", _PLAIN)
    assert first == {"tags": "�", "keys": None, "properties": [("TAGS", "�"), ("name", "�")]}
    assert second["tags"] == "paid"
