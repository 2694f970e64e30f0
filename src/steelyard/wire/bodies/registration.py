"""A broker's registration at a name server: JSON, or the compressed form of older brokers.

The compressed form is one zlib stream of parts, each a length of four bytes and as much text: the table's version as
JSON; the number of topics and for each a line of its settings; the filter servers as JSON; and from version 413 on the
number of static topics and for each its mapping as JSON. It does not carry a topic's order and system flag.
"""

from collections.abc import Iterator
from struct import pack

import msgspec

from steelyard.errors import LimitExceeded, MalformedBody, MalformedRecord
from steelyard.wire import limits
from steelyard.wire.bodies.codec import decode_body, encode_body
from steelyard.wire.bodies.routes import QueueMapping
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.body import Body, always
from steelyard.wire.codes import Version
from steelyard.wire.compression import compress, decompress
from steelyard.wire.numbers import Int32
from steelyard.wire.sysflag import COMPRESSED, Compression

__all__ = ["Registration", "compress_registration", "decompress_registration"]

_WHERE = "body of Registration"


class Registration(Body, frozen=True, kw_only=True):
    """What a broker brings: its topics (Java: RegisterBrokerBody)."""

    filter_servers: tuple[str, ...] = always((), "filterServerList")
    table: TopicTable = always(TopicTable(), "topicConfigSerializeWrapper")


def compress_registration(body: Registration, *, version: int) -> bytes:
    """Write a registration in the compressed form, for a name server that reads what ``version`` writes.

    >>> body = Registration(table=TopicTable(version=TableVersion(), topics={"t": TopicSettings(name="t")}))
    >>> decompress_registration(compress_registration(body, version=407), version=407) == body
    True
    """
    table = body.table
    out = [_sized(encode_body(table.version or TableVersion())), pack(">i", len(table.topics))]
    out += (_sized(_line(topic, version).encode()) for topic in table.topics.values())
    out.append(_sized(encode_body(body.filter_servers)))
    if version >= Version.V5_0_0:
        mappings = table.mappings or {}
        out.append(pack(">i", len(mappings)))
        out += (_sized(encode_body(mapping)) for mapping in mappings.values())
    return compress(b"".join(out), Compression.ZLIB)


def decompress_registration(data: bytes, *, version: int) -> Registration:
    """Read a registration in the compressed form, as a broker of ``version`` writes it."""
    try:
        parts = _Parts(decompress(data, COMPRESSED))
    except MalformedRecord as error:
        raise MalformedBody(error.what, where=_WHERE) from None
    table_version = decode_body(TableVersion, parts.part())
    topics = [_topic(part) for part in parts.counted()]
    servers = decode_body(tuple[str, ...], parts.part())
    mappings = None
    if version >= Version.V5_0_0:
        read = (decode_body(QueueMapping, part) for part in parts.counted())
        mappings = {mapping.topic: mapping for mapping in read if mapping.topic is not None}
    table = TopicTable(version=table_version, topics={topic.name: topic for topic in topics}, mappings=mappings)
    return Registration(filter_servers=servers, table=table)


class _Parts:
    """Reads lengths and parts one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._count = data, 0, 0

    def part(self) -> bytes:
        """Read one part."""
        size = self._number()
        start, end = self._at, self._at + size
        if end > len(self._data):
            raise MalformedBody(f"a part of {size} bytes is cut off", where=_WHERE, at=start)
        self._at = end
        return self._data[start:end]

    def counted(self) -> Iterator[bytes]:
        """Read a number, and as many parts."""
        count, most = self._number(), limits.REGISTERED_PARTS
        self._count += count
        if self._count > most:
            raise LimitExceeded("number of topics", where=_WHERE, limit=most, found=self._count, at=self._at - 4)
        for _ in range(count):
            yield self.part()

    def _number(self) -> int:
        word = self._data[self._at : self._at + 4]
        number = int.from_bytes(word, "big", signed=True)
        if len(word) < 4 or number < 0:
            raise MalformedBody(
                "a length is cut off" if len(word) < 4 else f"a length is {number}", where=_WHERE, at=self._at
            )
        self._at += 4
        return number


def _sized(part: bytes) -> bytes:
    return pack(">i", len(part)) + part


def _line(topic: TopicSettings, version: int) -> str:
    fields = (topic.name, topic.read_queues, topic.write_queues, topic.permission, topic.filter_type)
    line = " ".join(map(str, fields))
    # A name server before 5.0 fails on a line with more fields than these.
    if topic.attributes is None or version < Version.V5_0_0:
        return line
    return f"{line} {encode_body(topic.attributes).decode()}"


def _topic(line: bytes) -> TopicSettings:
    try:
        fields = line.decode().split(" ", 5)
        name, read, write, permission, filter_type = msgspec.convert(
            fields[:5], tuple[str, Int32, Int32, Int32, str], strict=False
        )
    except ValueError as error:
        raise MalformedBody(f"a topic's settings cannot be read: {error}", where=_WHERE) from None
    return TopicSettings(
        attributes=_attributes(fields[5]) if len(fields) > 5 else None,
        name=name,
        read_queues=read,
        write_queues=write,
        permission=permission,
        filter_type=filter_type,
    )


def _attributes(text: str) -> dict[str, str] | None:
    # Java's reader ignores attributes that it cannot read, and so may a broker that is older than them.
    try:
        return decode_body(dict[str, str], text.encode())
    except MalformedBody:
        return None
