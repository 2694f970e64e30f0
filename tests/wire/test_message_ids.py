from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, MalformedRecord
from steelyard.wire.hosts import host_text
from steelyard.wire.message_ids import (
    make_unique_key,
    month_bounds,
    offset_id,
    parse_offset_id,
    parse_unique_key,
    unique_key_prefix,
)
from steelyard.wire.stored_messages import decode_messages
from tests.wire.stored_golden import record_bodies
from tests.wire.stored_values import hosts

_NOW_MS = 1_700_000_000_000
_PREFIX = "7F000001788F4E0E2F2A"


def _ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0, *, zone: timezone = UTC) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=zone).timestamp() * 1000)


def test_the_offset_id_of_apache_is_written_and_read() -> None:
    assert offset_id("192.168.1.2:10911", 1024) == "C0A8010200002A9F0000000000000400"
    assert parse_offset_id("C0A8010200002A9F0000000000000400") == ("192.168.1.2:10911", 1024)


@given(hosts.map(host_text), st.integers(-(1 << 63), (1 << 63) - 1))
def test_an_offset_id_leads_back_to_host_and_position(host: str, position: int) -> None:
    made = offset_id(host, position)
    assert len(made) == (56 if host.startswith("[") else 32)
    assert made == made.upper()
    assert parse_offset_id(made) == parse_offset_id(made.lower()) == (host, position)


@pytest.mark.parametrize(
    "text",
    ["", "x" * 32, "0" * 31, "0" * 33, "0" * 55, " " + "0" * 31, "00 " * 10 + "00", "\N{ARABIC-INDIC DIGIT ZERO}" * 32],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedRecord, match=r"message id: .* is not one; it has 32 or 56 hexadecimal digits"):
        parse_offset_id(text)
    with pytest.raises(MalformedRecord):
        parse_unique_key(text, now_ms=_NOW_MS)


def test_recorded_keys_say_when_and_by_whom_they_were_made() -> None:
    seen = 0
    for recorded in record_bodies():
        for message in decode_messages(recorded.body, "broker-a"):
            key = parse_unique_key(message.message_id, now_ms=message.stored_ms + 60_000)
            assert key.address == "127.0.0.1"
            assert 0 <= message.stored_ms - key.made_ms < 60_000
            assert (
                make_unique_key(
                    unique_key_prefix(key.address, key.pid, key.process),
                    now_ms=key.made_ms,
                    month_start_ms=month_bounds(key.made_ms)[0],
                    counter=key.counter,
                )
                == message.message_id
            )
            seen += 1
    assert seen == 45


@given(
    st.ip_addresses().map(str),
    st.integers(0, 1 << 22),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 4_000_000_000_000),
    st.integers(0, 1 << 20),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_key_says_what_it_was_made_of(
    address: str, pid: int, process: int, now_ms: int, counter: int, zone_minutes: int
) -> None:
    zone = timezone(timedelta(minutes=zone_minutes))
    start_ms, end_ms = month_bounds(now_ms, zone)
    assert start_ms <= now_ms < end_ms
    made = make_unique_key(
        unique_key_prefix(address, pid, process), now_ms=now_ms, month_start_ms=start_ms, counter=counter
    )
    assert len(made) == (56 if ":" in address else 32)
    key = parse_unique_key(made, now_ms=now_ms + 1, zone=zone)
    assert (key.address, key.pid, key.process) == (address, pid & 0xFFFF, process)
    assert (key.made_ms, key.counter) == (now_ms, counter & 0xFFFF)


@pytest.mark.parametrize(
    ("since_ms", "digits"),
    [(0, "00000000"), (1, "00000001"), (-1, "00000000"), (-999_999, "00000000"), (-1_000_000, "FFF0BDC0")],
)
def test_a_clock_set_back_a_little_counts_as_the_months_start(since_ms: int, digits: str) -> None:
    made = make_unique_key(_PREFIX, now_ms=_NOW_MS + since_ms, month_start_ms=_NOW_MS, counter=0)
    assert made == f"{_PREFIX}{digits}0000"


def test_a_key_from_late_last_month_is_not_in_the_future() -> None:
    made_ms = _ms(2024, 2, 29, 23)
    made = make_unique_key(_PREFIX, now_ms=made_ms, month_start_ms=_ms(2024, 2, 1), counter=7)
    assert parse_unique_key(made, now_ms=_ms(2024, 3, 1, 2)).made_ms == made_ms
    # A whole month later nothing tells it from a key of that month.
    assert parse_unique_key(made, now_ms=_ms(2024, 3, 31)).made_ms == _ms(2024, 3, 29, 23)


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ((2024, 2, 29, 23, 59), (2024, 2, 1), (2024, 3, 1)),
        ((2023, 12, 31, 23), (2023, 12, 1), (2024, 1, 1)),
        ((2024, 1, 1), (2024, 1, 1), (2024, 2, 1)),
    ],
)
def test_a_month_is_a_half_open_range(now: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...]) -> None:
    assert month_bounds(_ms(*now)) == (_ms(*start), _ms(*end))


def test_a_month_starts_at_local_midnight() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert month_bounds(_ms(2024, 2, 29, 20), shanghai) == (
        _ms(2024, 3, 1, zone=shanghai),
        _ms(2024, 4, 1, zone=shanghai),
    )


def test_what_a_calendar_cannot_hold_is_refused() -> None:
    for now_ms in (1 << 62, -(1 << 62)):
        with pytest.raises(ConfigurationError, match="is no time of a calendar"):
            month_bounds(now_ms)
    with pytest.raises(ConfigurationError, match="'here' is not an address"):
        unique_key_prefix("here", 1, 2)
