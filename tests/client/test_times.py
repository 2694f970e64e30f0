"""Times that a client is given mean the same on every machine."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.times import parse_start, resolve_epoch_ms, to_epoch_ms
from steelyard.errors import ConfigurationError

_EAST = timezone(timedelta(hours=8))


@given(st.integers(0, 7_000_000_000))
def test_a_zone_changes_nothing(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, _EAST)
    assert to_epoch_ms(moment) == to_epoch_ms(moment.astimezone(UTC)) == parse_start(moment).time_ms


def test_a_time_before_1970_is_its_beginning() -> None:
    assert to_epoch_ms(datetime(1960, 1, 1, tzinfo=UTC)) == 0


def test_a_time_without_a_zone_is_refused() -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(ConfigurationError, match="2026-11-01 00:00:00 has no zone; say which"):
        parse_start(moment)
    with pytest.raises(ConfigurationError, match="has no zone"):
        resolve_epoch_ms(moment, now_ms=0)
