"""Any record, any properties, any batch item: what the tests of stored messages draw from."""

from typing import TypedDict

from hypothesis import strategies as st

from steelyard.wire.batch import BatchItem

HOST = bytes.fromhex("7f00000100002a9f")

HELLO_RECORD = bytes.fromhex(
    "00000073daa320a73610a686000000030000000000000000000000050000000000000400000000000000018bcfe568007f00000100001388"
    "0000018bcfe56801c0a8010200002a9f0000000000000000000000000000000568656c6c6f09546f70696354657374000a54414753015461"
    "674102"
)
"""Written by Apache's own classes: TopicTest, queue 3, offset 5, position 1024, TAGS=TagA, hello."""


class RecordParts(TypedDict):
    """The parts that `pack_record` takes."""

    topic: bytes
    queue_id: int
    offset: int
    position: int
    body: bytes
    properties: bytes
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_offset: int
    crc: int | None


_int32 = st.integers(-(1 << 31), (1 << 31) - 1)
_int64 = st.integers(-(1 << 63), (1 << 63) - 1)

_property_text = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)

properties = st.dictionaries(_property_text, _property_text, max_size=6)
"""Properties that can be written."""

property_texts = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"TAGS", b"KEYS", b"TAG", b"S", b"x", b"\xff", "ü".encode(), b"__CRC32#"]),
    max_size=30,
).map(b"".join)
"""Any mixture of names, values and separators, broken ones included."""

hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
"""Hosts of both kinds as records have them."""

batch_items = st.builds(BatchItem, _int32, st.binary(max_size=60), st.binary(max_size=60))
"""Any item of a batch."""


@st.composite
def parts(draw: st.DrawFn) -> RecordParts:
    """Draw the parts of any record: both versions, both kinds of hosts, any numbers."""
    return RecordParts(
        topic=draw(st.one_of(st.binary(max_size=12), st.binary(min_size=120, max_size=200))),
        queue_id=draw(_int32),
        offset=draw(_int64),
        position=draw(_int64),
        body=draw(st.binary(max_size=100)),
        properties=draw(st.binary(max_size=100)),
        born_ms=draw(_int64),
        born_host=draw(hosts),
        stored_ms=draw(_int64),
        store_host=draw(hosts),
        flag=draw(_int32),
        sys_flag=draw(_int32),
        reconsume_times=draw(_int32),
        prepared_offset=draw(_int64),
        crc=draw(st.none() | _int32),
    )
