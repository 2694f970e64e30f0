"""A peer that wants our memory or our time: what it sends is refused, or forgotten, and never quoted at length."""

import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import pack

import pytest

from steelyard.errors import LimitExceeded, MalformedBody
from steelyard.model import Permission, tag_hash
from steelyard.wire import limits
from steelyard.wire.binary_header import header_from_binary, pack_fields
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.bodies.heartbeat import HeartbeatBody, SubscriptionBody
from steelyard.wire.bodies.topics import RouteBody, decompress_registration
from steelyard.wire.headers.common import TopicNameRequest
from steelyard.wire.record import pack_record
from steelyard.wire.stored_messages import decode_messages
from tests.wire.stored_values import HOST


@contextmanager
def remembering_at_most(size: int) -> Iterator[None]:
    """Fail when more than so many bytes are kept of what happens inside."""
    tracemalloc.start()
    try:
        yield
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < size


def test_long_headers_of_many_lengths_are_forgotten() -> None:
    with remembering_at_most(200_000):
        for size in range(30_000, 30_050):
            assert (
                header_from_binary(TopicNameRequest, pack_fields([("topic", "orders"), ("x", "y" * size)])).topic
                == "orders"
            )


def test_short_headers_of_many_lengths_are_remembered_within_bounds() -> None:
    def remember(sizes: range) -> None:
        for size in sizes:
            for name in "wxyz":
                header_from_binary(TopicNameRequest, pack_fields([("topic", "orders"), (name, "y" * size)]))

    # Of the first, which are short, next to nothing is left in the end, and what is traced takes eight times as long.
    remember(range(1, 1_000))
    with remembering_at_most(40_000_000):
        remember(range(1_000, 2_000))


def test_topics_that_no_broker_would_take_are_forgotten() -> None:
    with remembering_at_most(200_000):
        for number in range(50):
            topic = b"%d" % number + b"x" * 30_000
            record = pack_record(topic, 0, 0, 0, b"", b"", born_ms=0, born_host=HOST, stored_ms=0, store_host=HOST)
            assert [message.topic.encode() for message in decode_messages(record, "broker-a")] == [topic]


def test_long_tags_are_forgotten() -> None:
    with remembering_at_most(200_000):
        assert len({tag_hash("x" * size) for size in range(30_000, 30_020)}) == 20


def test_bits_of_a_permission_that_mean_nothing_are_dropped() -> None:
    # An enum of flags remembers every combination that was ever asked for.
    text = b'{"queueDatas":[{"brokerName":"b","perm":%d,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1}]}'
    for number in (6, 0x7FFFFFF6, -10):
        (counts,) = decode_body(RouteBody, text % number).route("orders").counts
        assert counts.permission is Permission(6)


def _enum() -> object:
    text = b'{"clientID":"c","consumerDataSet":[{"consumeType":"%s"}],"x":"%s"}'
    return decode_body(HeartbeatBody, text % (b"y" * 100_000, b"z" * 1_000_000))


def _kind() -> object:
    return SubscriptionBody(topic="orders", kind="y" * 100_000).subscription()


def _expression() -> object:
    return SubscriptionBody(topic="orders", expression="||" * 10_000).subscription()


@pytest.mark.parametrize("read", [_enum, _kind, _expression])
def test_a_peer_is_quoted_in_part(read: Callable[[], object]) -> None:
    with pytest.raises(MalformedBody) as caught:
        read()
    assert len(str(caught.value)) < 600
    assert "…" in str(caught.value)


def test_a_subscription_that_no_pull_could_carry_is_refused() -> None:
    tags = "||".join(f"{number:02}" for number in range(10_000))
    with pytest.raises(LimitExceeded, match="the expression"):
        SubscriptionBody(topic="orders", expression=tags).subscription()


def _registration(count: int) -> bytes:
    topic = b"t 1 1 6 SINGLE_TAG"
    table = pack(">i2si", 2, b"{}", count) + (pack(">i", len(topic)) + topic) * count
    return zlib.compress(table + pack(">i2s", 2, b"[]"))


def test_a_small_registration_of_too_many_topics_is_refused() -> None:
    data = _registration(limits.REGISTERED_PARTS + 1)
    assert len(data) < 20_000
    with pytest.raises(LimitExceeded, match="number of topics"):
        decompress_registration(data, version=407)
    assert len(decompress_registration(_registration(1000), version=407).table.topics) == 1


def test_settings_that_are_too_long_are_refused() -> None:
    assert decode_settings(b"a=b\n" * (limits.SETTINGS_BYTES // 4)) == {"a": "b"}
    with pytest.raises(LimitExceeded, match="size in bytes"):
        decode_settings(b"a=b\n" * (limits.SETTINGS_BYTES // 4 + 1))
