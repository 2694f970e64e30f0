"""Times are read as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.errors import ConfigurationError
from steelyard.model.time_text import parse_duration_s, parse_time

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [("0", 0), ("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("10 min", 600), ("2 Hours", 7_200), ("1w", 604_800)],
)
def test_a_span_is_read(text: str, span: float) -> None:
    assert parse_duration_s(text) == span


@pytest.mark.parametrize("text", ["", "x", "-1", "1 fortnight", "nan", "inf", "1e300", "1 2s"])
def test_what_is_no_span_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no span of time"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("now", NOON),
        ("2 hours ago", NOON - timedelta(hours=2)),
        ("90s", NOON - timedelta(seconds=90)),
        ("2026-11-01T08:00:00Z", NOON - timedelta(hours=4)),
        ("2026-11-01T08:00:00+02:00", NOON - timedelta(hours=6)),
    ],
)
def test_a_moment_is_read(text: str, when: datetime) -> None:
    assert parse_time(text, NOON) == when


def test_a_time_without_a_zone_is_of_this_machine() -> None:
    assert parse_time("2026-11-01", NOON) == datetime(2026, 11, 1).astimezone()


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "some time ago"])
def test_what_is_no_moment_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no"):
        parse_time(text, NOON)
