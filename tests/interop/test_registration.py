"""A broker's registration in the compressed form, which its version shapes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import (
    BrokerRegistration,
    QueueMapping,
    TopicConfig,
    TopicConfigTable,
    decompress_registration,
)
from steelyard.wire.codes import Version
from tests.interop.java_values import for_java, names
from tests.interop.peer import Peer
from tests.wire.body_values import values
from tests.wire.registration_encoder import compress_registration

OLD, NEW = int(Version.V4_9_7), int(Version.V5_5_0)

# Blanks part the fields of a line: names never have any, and attributes must not.
plain = names.map(lambda name: "".join(name.split())).filter(bool)


@st.composite
def registrations(draw: st.DrawFn) -> BrokerRegistration:
    """Draw a registration without what the compressed form does not carry: order, flags, details."""
    topics: list[TopicConfig] = draw(st.lists(values(TopicConfig).map(for_java), max_size=3))
    table = {
        name: replace(topic, name=name, attributes=attributes, order=False, sys_flag=0)
        for topic, name, attributes in zip(
            topics, draw(st.lists(plain, min_size=3, max_size=3)), [{}, {"+a": draw(plain)}, {}], strict=False
        )
    }
    mappings: list[QueueMapping] = draw(st.lists(values(QueueMapping).map(for_java), max_size=2))
    return BrokerRegistration(
        filter_servers=tuple(draw(st.lists(plain, max_size=2))),
        table=TopicConfigTable(
            version=TableVersion(counter=draw(st.integers(0, 99)), state_version=7, timestamp=8),
            topics=table,
            mappings={
                name: replace(mapping, topic=name, scope=mapping.scope or "__global__")
                for name, mapping in zip("ab", mappings, strict=False)
            },
        ),
    )


def carried(body: BrokerRegistration, java: Peer, version: int) -> BrokerRegistration:
    """Return what is carried by the compressed form of a version, and neither forgotten nor added by a release."""
    table, table_version = body.table, body.table.version
    assert table_version is not None
    if java.is_4:
        table_version = replace(table_version, state_version=None)
    table = replace(table, version=table_version, mapping_version=None, mapping_details=None)
    if version < Version.V5_0_0:
        topics = {name: replace(topic, attributes=None) for name, topic in table.topics.items()}
        table = replace(table, topics=topics, mappings=None)
    return replace(body, table=table)


@settings(max_examples=100)
@given(body=registrations())
def test_java_opens_what_we_compress(java: Peer, body: BrokerRegistration) -> None:
    for version in [OLD] if java.is_4 else [OLD, NEW]:
        opened = java.ask_bytes("open-registration", compress_registration(body, version=version), version)
        assert carried(decode_body(BrokerRegistration, opened), java, version) == carried(body, java, version)


@settings(max_examples=100)
@given(body=registrations())
def test_we_open_what_java_compresses(java: Peer, body: BrokerRegistration) -> None:
    version = OLD if java.is_4 else NEW
    opened = decompress_registration(java.ask_bytes("compress-registration", encode_body(body)), version=version)
    assert opened == carried(body, java, version)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_5_drops_attributes_with_a_blank_and_we_keep_them(java_5: Peer, version: int) -> None:
    topic = TopicConfig(name="orders", attributes={"a": "b c"})
    body = BrokerRegistration(table=TopicConfigTable(version=TableVersion(), topics={"orders": topic}))
    compressed = compress_registration(body, version=NEW)
    opened = decode_body(BrokerRegistration, java_5.ask_bytes("open-registration", compressed, version))
    assert opened.table.topics["orders"].attributes == {}
    assert decompress_registration(compressed, version=version).table.topics["orders"].attributes == {"a": "b c"}
