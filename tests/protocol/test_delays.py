"""A delay is never cut short: it is exact if the broker can, else rounded up, with a note."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import Message, Queue
from steelyard.protocol.send import DELAY_LEVELS_MS, delay_level_for, resolve_delay, send_request, supports_timers
from steelyard.wire.codes import SERVER_VERSION
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import make_topic
from tests.protocol.frames import RELEASES, recorded, store

LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""As brokers have it in their settings."""

DAY_S = 86_400


def properties_of(delay_s: float | None, deliver_at: datetime | None = None, *, timers: bool) -> dict[str, str]:
    delay = resolve_delay(delay_s, deliver_at, now_ms=START_MS, has_timers=timers)
    return {} if delay is None else dict(delay.properties)


def test_the_levels_are_those_of_every_broker() -> None:
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000}
    assert tuple(int(text[:-1]) * units[text[-1]] for text in LEVELS.split()) == DELAY_LEVELS_MS


@given(st.integers(-10, DELAY_LEVELS_MS[-1]))
def test_the_level_of_a_delay_is_the_first_that_is_long_enough(delay_ms: int) -> None:
    level = delay_level_for(delay_ms)
    assert DELAY_LEVELS_MS[level - 1] >= delay_ms
    assert level == 1 or DELAY_LEVELS_MS[level - 2] < delay_ms


@given(st.integers(1, 18), st.booleans())
def test_a_delay_that_is_a_level_is_said_as_one_everywhere(level: int, timers: bool) -> None:
    delay = resolve_delay(DELAY_LEVELS_MS[level - 1] / 1_000, None, now_ms=START_MS, has_timers=timers)
    assert delay is not None
    assert (delay.properties, delay.note) == ({"DELAY": str(level)}, "")


@given(st.floats(0, 3 * DAY_S))
def test_a_broker_with_timers_waits_as_long_as_requested(delay_s: float) -> None:
    match properties_of(delay_s, timers=True):
        case {"DELAY": level}:
            waits_ms = DELAY_LEVELS_MS[int(level) - 1]
        case {"TIMER_DELAY_MS": text}:
            waits_ms = int(text)
        case _:
            waits_ms = 0
    assert waits_ms - 1 <= delay_s * 1_000 <= waits_ms + 0.001


@given(st.floats(0.001, 7_200))
def test_a_broker_without_timers_waits_longer_and_that_is_logged(delay_s: float) -> None:
    delay = resolve_delay(delay_s, None, now_ms=START_MS, has_timers=False)
    assert delay is not None
    waits_ms = DELAY_LEVELS_MS[int(delay.properties["DELAY"]) - 1]
    assert waits_ms + 0.001 >= delay_s * 1_000
    assert bool(delay.note) == (waits_ms - delay_s * 1_000 >= 1)


def test_a_moment_is_said_as_one() -> None:
    moment = datetime.fromtimestamp(START_MS / 1_000, UTC) + timedelta(seconds=30)
    assert properties_of(None, moment, timers=True) == {"TIMER_DELIVER_MS": str(START_MS + 30_000)}
    elsewhere = moment.astimezone(timezone(timedelta(hours=9)))
    assert properties_of(None, elsewhere, timers=True) == {"TIMER_DELIVER_MS": str(START_MS + 30_000)}
    assert properties_of(None, moment + timedelta(microseconds=1), timers=True) == {
        "TIMER_DELIVER_MS": str(START_MS + 30_001)
    }
    assert properties_of(None, moment, timers=False) == {"DELAY": "4"}
    assert properties_of(None, moment + timedelta(seconds=1), timers=False) == {"DELAY": "5"}


@pytest.mark.parametrize("timers", [True, False])
def test_what_is_due_already_is_sent_as_it_is(timers: bool) -> None:
    now = datetime.fromtimestamp(START_MS / 1_000, UTC)
    assert properties_of(0, timers=timers) == properties_of(None, timers=timers) == {}
    assert properties_of(None, now, timers=timers) == properties_of(None, now - timedelta(days=1), timers=timers) == {}


def test_a_delay_that_a_broker_cannot_keep_is_refused_with_a_next_step() -> None:
    with pytest.raises(ConfigurationError, match="a delay of 7201 s is more than the highest level waits") as caught:
        properties_of(7_201, timers=False)
    assert "brokers with timers" in str(caught.value)
    with pytest.raises(ConfigurationError, match="highest level"):
        properties_of(None, datetime(2100, 1, 1, tzinfo=UTC), timers=False)


@pytest.mark.parametrize("delay_s", [-1, float("nan"), float("inf"), "5"])
def test_what_is_no_delay_is_refused(delay_s: float) -> None:
    with pytest.raises(ConfigurationError, match="give seconds, 0 or more"):
        properties_of(delay_s, timers=True)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="with a time zone"):
        properties_of(None, datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None), timers=True)
    with pytest.raises(ConfigurationError, match="leave one out"):
        properties_of(5, datetime(2030, 1, 1, tzinfo=UTC), timers=True)


@pytest.mark.parametrize("release", RELEASES)
def test_the_version_in_responses_shows_whether_a_broker_has_timers(release: str) -> None:
    (answer,) = recorded(release, "send-delay-level1", 310, is_answer=True)
    assert supports_timers(answer.version) == release.startswith("5")
    assert supports_timers(SERVER_VERSION)


@pytest.mark.parametrize(("delay_s", "due_ms"), [(5, 5_000), (7.5, 7_500)])
def test_our_broker_keeps_the_delay(delay_s: float, due_ms: int) -> None:
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=1)
    queue = Queue("orders", "broker-0", 0)
    more = properties_of(delay_s, timers=True)
    store(
        harness,
        send_request(
            "shop", Message("orders", b"later"), queue, unique_key="U", now_ms=START_MS, extra_properties=more
        ),
    )
    harness.advance(due_ms - 1_100)
    assert not harness.queue("orders")
    harness.advance(1_300)
    assert [record.body for record in harness.queue("orders")] == [b"later"]
