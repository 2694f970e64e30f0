"""The two ids of a message: made by one side, read by the other."""

import time
from datetime import timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.wire.hosts import host_text
from steelyard.wire.message_ids import (
    make_unique_key,
    month_bounds,
    offset_id,
    parse_offset_id,
    parse_unique_key,
    unique_key_prefix,
)
from tests.interop.java_values import int64
from tests.interop.peer import Peer
from tests.interop.test_records import hosts

ZONE = timezone(timedelta(hours=5, minutes=30))
"""The local time of the Java processes."""

addresses = st.sampled_from(["10.0.0.7", "255.255.255.255", "0.0.0.0", "2001:db8::1", "::1"])


@settings(max_examples=200)
@given(host=hosts, position=int64)
def test_an_offset_id_passes_both_ways(java: Peer, host: bytes, position: int) -> None:
    address, port = host[:-4], int.from_bytes(host[-4:], "big")
    theirs = java.ask("write-offset-id", address, port, position)
    assert theirs == offset_id(host_text(host), position)
    assert parse_offset_id(theirs) == (host_text(host), position)
    assert java.ask("read-offset-id", theirs) == {"host": f"{address.hex()}:{port}", "position": position}


def test_we_read_the_unique_keys_that_java_makes(java: Peer) -> None:
    first, second = java.ask("write-unique-key"), java.ask("write-unique-key")
    keys = [parse_unique_key(made["key"], now_ms=made["latest_ms"] + 1, zone=ZONE) for made in (first, second)]
    for made, key in zip((first, second), keys, strict=True):
        assert unique_key_prefix(key.address, made["pid"], made["process"]) == made["key"][:-12]
        assert key.pid == made["pid"] & 0xFFFF
        assert made["earliest_ms"] <= key.made_ms <= made["latest_ms"]
    assert keys[1].counter == keys[0].counter + 1 & 0xFFFF


@settings(max_examples=50)
@given(address=addresses, pid=st.integers(0, 1 << 22), process=st.integers(0, (1 << 32) - 1), counter=st.integers(0))
def test_java_reads_the_unique_keys_that_we_make(
    java: Peer, address: str, pid: int, process: int, counter: int
) -> None:
    # A key does not name its month: both readers take the latest that does not put it into the future.
    now_ms = int(time.time() * 1000) - 5_000
    month_start_ms, _ = month_bounds(now_ms, ZONE)
    prefix = unique_key_prefix(address, pid, process)
    key = make_unique_key(prefix, now_ms=now_ms, month_start_ms=month_start_ms, counter=counter)
    packed_address = prefix[:-12].lower()
    assert java.ask("read-unique-key", key) == {"address": packed_address, "pid": pid & 0xFFFF, "made_ms": now_ms}
