"""The compressed registration as brokers before 5.0 send it; ours sends JSON."""

from struct import pack

from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import BrokerRegistration, TopicConfig
from steelyard.wire.codes import Version
from steelyard.wire.compression import compress
from steelyard.wire.json_body import encode_body
from steelyard.wire.sysflag import Compression


def compress_registration(body: BrokerRegistration, *, version: int) -> bytes:
    """Encode a registration in the compressed form of a version."""
    table = body.table
    out = [_with_length(encode_body(table.version or TableVersion())), pack(">i", len(table.topics))]
    out += (_with_length(_encode_topic(topic, version).encode()) for topic in table.topics.values())
    out.append(_with_length(encode_body(body.filter_servers)))
    if version >= Version.V5_0_0:
        mappings = table.mappings or {}
        out.append(pack(">i", len(mappings)))
        out += (_with_length(encode_body(mapping)) for mapping in mappings.values())
    return compress(b"".join(out), Compression.ZLIB)


def _with_length(part: bytes) -> bytes:
    return pack(">i", len(part)) + part


def _encode_topic(topic: TopicConfig, version: int) -> str:
    fields = (topic.name, topic.read_queues, topic.write_queues, topic.permission, topic.filter_type)
    line = " ".join(map(str, fields))
    # A name server before 5.0 fails on a line with more fields than these.
    if topic.attributes is None or version < Version.V5_0_0:
        return line
    return f"{line} {encode_body(topic.attributes).decode()}"
