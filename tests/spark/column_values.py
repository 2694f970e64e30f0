"""Any records of any kinds, as pieces that a broker could give, and what a consumer reads in them."""

from collections.abc import Sequence
from datetime import datetime

from hypothesis import strategies as st

from steelyard.client.bulk.range_reader import RecordChunk
from steelyard.client.namespace import ClientNamespace
from steelyard.model import Queue
from steelyard.model.message import KEYS, StoredMessage
from steelyard.spark.schema import COLUMNS
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.compression import compress
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import pack_record
from steelyard.wire.stored_messages import decode_messages
from steelyard.wire.sysflag import COMPRESSED, WRAPPED, Compression
from tests.wire.stored_values import hosts, property_texts
from tests.wire.stored_values import properties as good_properties

ALL = COLUMNS
"""All columns, in their order."""

Cell = str | int | bytes | datetime | list[tuple[str, str]] | None

_HOST = bytes.fromhex("7f00000100002a9f")


def record_of(
    offset: int,
    body: bytes = b"{}",
    properties: bytes = b"",
    *,
    topic: bytes = b"orders",
    queue_id: int = 0,
    position: int = 0,
    sys_flag: int = 0,
    born_ms: int = 1_000,
    stored_ms: int = 2_000,
    born_host: bytes = _HOST,
    store_host: bytes = _HOST,
    reconsume_times: int = 0,
) -> bytes:
    """Write a record, whatever is not said being plain."""
    return pack_record(
        topic,
        queue_id,
        offset,
        position,
        body,
        properties,
        born_ms=born_ms,
        born_host=born_host,
        stored_ms=stored_ms,
        store_host=store_host,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
    )


def as_read(pieces: Sequence[RecordChunk], columns: Sequence[str], namespace: str = "") -> dict[str, list[Cell]]:
    """Return the columns that a consumer would make of pieces, message by message."""
    names = ClientNamespace(namespace)
    rows = [
        row_of(message, names)
        for piece in pieces
        for message in decode_messages(piece.records, piece.queue.broker)
        if piece.start <= message.offset < piece.end
    ]
    return {column: [row[column] for row in rows] for column in columns}


def row_of(message: StoredMessage, names: ClientNamespace) -> dict[str, Cell]:
    """Return the columns of a message that a consumer has read."""
    return {
        "topic": names.unwrap(message.topic),
        "broker": message.queue.broker,
        "queue_id": message.queue.queue_id,
        "offset": message.offset,
        "body": message.body,
        "tags": message.tags,
        "keys": message.properties.get(KEYS),
        "message_id": message.message_id,
        "born_at": message.born_at,
        "stored_at": message.stored_at,
        "reconsume_times": message.reconsume_times,
        "properties": list(message.properties.items()),
    }


_int32 = st.integers(-(1 << 31), (1 << 31) - 1)
_moments_ms = st.one_of(
    st.integers(1_700_000_000_000, 1_900_000_000_000),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([-62_135_596_800_001, -62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000]),
)
_texts = st.one_of(
    st.builds(encode_properties, good_properties, closed=st.booleans()),
    st.just(b"TAGS\x01paid\x02KEYS\x01a b\x02UNIQ_KEY\x0100FF\x02WAIT\x01true\x02"),
    st.just(b"TAGS\x01new\x02KEYS\x01c\x02UNIQ_KEY\x0100FE\x02WAIT\x01true\x02"),
    property_texts,
    st.binary(max_size=60),
)
_bodies = st.one_of(st.binary(max_size=80), st.just(b"same length"), st.just(b"\xda\xa3\x20\xa7" * 3))
_topics = st.sampled_from([b"orders", b"eu%orders", b"%RETRY%eu%billing", "große".encode(), b"o" * 127, b"o" * 128])


@st.composite
def _records(draw: st.DrawFn, offset: int, is_simple: bool) -> bytes:
    kind = "plain" if is_simple else draw(st.sampled_from(["plain", "plain", "compressed", "batch"]))
    body, text, flag = draw(_bodies), draw(_texts), draw(_int32) & ~(COMPRESSED | WRAPPED)
    if kind == "batch":
        body = encode_batch(draw(st.lists(st.builds(BatchItem, _int32, _bodies, _texts), max_size=3)))
        flag, text = flag | WRAPPED, b""
    if kind == "compressed" or (kind == "batch" and draw(st.booleans())):
        way = draw(st.sampled_from(list(Compression)))
        body, flag = compress(body, way), flag & ~0x700 | COMPRESSED | way
    return record_of(
        offset,
        body,
        text,
        topic=draw(_topics),
        queue_id=draw(_int32),
        position=draw(st.integers(-(1 << 63), (1 << 63) - 1)),
        sys_flag=flag,
        born_ms=draw(_moments_ms),
        stored_ms=draw(_moments_ms),
        born_host=_HOST if is_simple else draw(hosts),
        store_host=_HOST if is_simple else draw(hosts),
        reconsume_times=draw(_int32),
    )


@st.composite
def pieces(draw: st.DrawFn) -> list[RecordChunk]:
    """Draw pieces of any queues with any records: of one kind or mixed, some of them not wanted."""
    drawn = []
    for queue_id in range(draw(st.integers(0, 4))):
        start, is_simple = draw(st.integers(0, 1 << 40)), draw(st.booleans())
        count = draw(st.integers(0, 6))
        records = [draw(_records(start + index, is_simple)) for index in range(count)]
        # Some are the same again and again, as a producer's are.
        records *= draw(st.sampled_from([1, 1, 1, 20]))
        queue = Queue("orders", draw(st.sampled_from(["broker-a", "b"])), queue_id)
        first, last = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1)]))
        drawn.append(RecordChunk(queue, start + first, start + count + 3 - last * 4, b"".join(records)))
    return drawn
