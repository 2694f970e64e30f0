import zlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steelyard.errors import LimitExceeded, MalformedBody, ProtocolError
from steelyard.wire import limits
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import (
    BrokerRegistration,
    QueueMapping,
    TopicConfig,
    TopicConfigTable,
    decompress_registration,
)
from steelyard.wire.json_body import ById
from tests.wire.registration_encoder import compress_registration

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "), min_size=1, max_size=12)
_COUNTS = st.integers(0, 2**31 - 1)
_TOPICS = st.builds(
    TopicConfig,
    name=_NAMES,
    read_queues=_COUNTS,
    write_queues=_COUNTS,
    permission=st.integers(0, 7),
    attributes=st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
_ORDERS = TopicConfig(name="orders", read_queues=4, write_queues=2, permission=6, attributes={"+a": "b"})


def parts(*texts: bytes | int) -> bytes:
    return b"".join(pack(">i", text) if isinstance(text, int) else pack(">i", len(text)) + text for text in texts)


@given(st.lists(_TOPICS, max_size=4), st.lists(st.text(max_size=8), max_size=3), st.sampled_from([37, 407, 413, 513]))
def test_a_compressed_registration_is_read_back(topics: list[TopicConfig], servers: list[str], version: int) -> None:
    mapping = QueueMapping(topic="static", broker="a", current=ById({0: 7}))
    table = TopicConfigTable(
        version=TableVersion(counter=3, timestamp=4),
        topics={topic.name: topic if version >= 413 else replace(topic, attributes=None) for topic in topics},
        mappings={"static": mapping} if version >= 413 else None,
    )
    body = BrokerRegistration(filter_servers=tuple(servers), table=table)
    assert decompress_registration(compress_registration(body, version=version), version=version) == body


def test_a_name_server_before_5_is_sent_no_attributes() -> None:
    body = BrokerRegistration(table=TopicConfigTable(topics={"orders": _ORDERS}))
    old, new = (zlib.decompress(compress_registration(body, version=version)) for version in (409, 413))
    assert parts(b"orders 4 2 6 SINGLE_TAG") in old
    assert parts(b'orders 4 2 6 SINGLE_TAG {"+a":"b"}') in new


def test_an_old_broker_s_registration_is_read() -> None:
    data = zlib.compress(
        parts(b'{"counter":1,"timestamp":2}', 2, b"TBW102 8 8 7 SINGLE_TAG", b"orders 4 2 6 MULTI_TAG", b'["f:1"]')
    )
    body = decompress_registration(data, version=407)
    assert body.filter_servers == ("f:1",)
    assert body.table.version == TableVersion(counter=1, timestamp=2)
    assert body.table.topics["orders"] == TopicConfig(
        name="orders", read_queues=4, write_queues=2, permission=6, filter_type="MULTI_TAG"
    )


def test_attributes_that_cannot_be_read_are_left_out_as_java_does() -> None:
    data = zlib.compress(parts(b"{}", 1, b'orders 4 2 6 SINGLE_TAG {"a', b"[]", 0))
    assert decompress_registration(data, version=513).table.topics["orders"].attributes is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        parts(b"{}"),
        parts(b"{}", -1),
        parts(b"{}", 1),
        parts(b"{}", limits.REGISTERED_PARTS),
        parts(b"{}", 1, b"orders 4 2 6"),
        parts(b"{}", 1, b"orders x 2 6 SINGLE_TAG", b"[]"),
        parts(b"{}", 1, b"orders \xff 2 6 SINGLE_TAG", b"[]"),
        parts(b"{}", 0, b"{"),
        parts(b"{}", 0, b"[]"),
        parts(b"{}", 0, b"[]", 1, b"{"),
        parts(b"{}", 0)[:-1],
        pack(">i", -5),
    ],
)
def test_a_registration_that_is_cut_or_wrong_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedBody):
        decompress_registration(zlib.compress(content), version=513)


def test_a_stream_that_cannot_be_opened_is_malformed() -> None:
    with pytest.raises(MalformedBody, match="body of BrokerRegistration"):
        decompress_registration(b"not zlib", version=513)
    with pytest.raises(MalformedBody, match="body of BrokerRegistration"):
        decompress_registration(zlib.compress(parts(b"{}", 0, b"[]", 0))[:-3], version=513)


def test_a_bomb_stops_at_the_limit() -> None:
    with pytest.raises(LimitExceeded):
        decompress_registration(zlib.compress(b"\0" * (limits.DECOMPRESSED_BYTES + 1)), version=513)


@given(st.binary(max_size=80), st.sampled_from([407, 513]))
def test_nothing_but_protocol_errors_comes_of_garbage(content: bytes, version: int) -> None:
    with pytest.raises(ProtocolError):
        decompress_registration(zlib.compress(content[:-1] + b"\x7f"), version=version)


def test_the_plain_form_has_java_s_names() -> None:
    assert encode_body(BrokerRegistration()) == (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
    )
