"""Rates and lag of the last hours: kept by the server, bounded, and there again after a restart."""

import asyncio
import logging
from pathlib import Path

import pytest

from steelyard import Admin, Producer
from steelyard.aio import Admin as AsyncAdmin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.rate_history import KEPT_MS, RateHistory, RateSample, take_sample
from steelyard.dashboard.server import Dashboard
from steelyard.net.clock import now_ms
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import run_members
from tests.dashboard.http_client import get
from tests.live.clusters import until
from tests.live.handled import send_all

_MINUTE_MS = 60_000
_SAMPLES = KEPT_MS // _MINUTE_MS


def _sample(at_ms: int, stored: int = 0, lag: int | None = 0, consumed: int = 0) -> RateSample:
    return RateSample(at_ms, {"orders": stored}, {"billing": (lag, consumed)})


def test_rates_are_those_between_samples() -> None:
    history = RateHistory()
    for minute in range(3):
        history.add(_sample(minute * _MINUTE_MS, 120 * minute, 5 * minute, 60 * minute))
    assert [point.rate for point in history.of_topic("orders")] == [None, 2.0, 2.0]
    assert [(point.rate, point.lag) for point in history.of_group("billing")] == [(None, 0), (1.0, 5), (1.0, 10)]
    assert history.of_topic("others") == history.of_group("others") == ()


def test_a_pause_and_a_reset_leave_a_gap_and_no_wrong_rate() -> None:
    history = RateHistory()
    for minute, consumed in ((0, 50), (1, 20), (60, 80)):
        history.add(_sample(minute * _MINUTE_MS, consumed=consumed))
    assert [(point.at_ms // _MINUTE_MS, point.rate, point.lag) for point in history.of_group("billing")] == [
        (0, None, 0),
        (1, None, 0),
        (1, None, None),
        (60, None, 0),
    ]


def test_what_was_kept_is_there_again_but_for_what_is_old_or_torn(tmp_path: Path) -> None:
    now = now_ms()
    first = RateHistory(tmp_path / "data" / "dashboard")
    for at_ms in (now - KEPT_MS - _MINUTE_MS, now - 2 * _MINUTE_MS, now - _MINUTE_MS):
        first.add(_sample(at_ms))
    file = tmp_path / "data" / "dashboard" / "rates.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open("ab") as kept:
        kept.write(b"\n[17,{")
    again = RateHistory(file.parent)
    again.add(_sample(now))
    times = [now - 2 * _MINUTE_MS, now - _MINUTE_MS, now]
    assert [point.at_ms for point in again.of_topic("orders")] == times
    assert [point.at_ms for point in RateHistory(file.parent).of_topic("orders")] == times


def test_memory_and_file_are_bounded(tmp_path: Path) -> None:
    history, now, longest = RateHistory(tmp_path), now_ms(), 0
    for place in range(3 * _SAMPLES):
        history.add(_sample(now + place))
        longest = max(longest, (tmp_path / "rates.jsonl").read_bytes().count(b"\n"))
    assert len(history.of_topic("orders")) == _SAMPLES
    assert longest <= 2 * _SAMPLES
    assert len(RateHistory(tmp_path).of_topic("orders")) == _SAMPLES


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    history = RateHistory(tmp_path / "file")
    with caplog.at_level(logging.WARNING, logger="steelyard.dashboard"):
        for at_ms in range(3):
            history.add(_sample(at_ms))
    assert len(caplog.records) == 1
    assert len(history.of_topic("orders")) == 3


def test_a_sample_counts_what_is_stored_consumed_and_waiting(cluster: Cluster) -> None:
    async def sampled() -> RateSample:
        async with AsyncAdmin(cluster.namesrv) as admin:
            return await take_sample(admin)

    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 2)
        send_all(producer, "orders", ["x"] * 6)
        with run_members(cluster.namesrv, "billing", "orders", "c1"):
            until(lambda: not sum(row.lag for row in admin.offsets.list("billing")), "all are handled")
        send_all(producer, "orders", ["x"] * 3)
        sample = asyncio.run(sampled())
    assert (sample.topics, sample.groups) == ({"orders": 9}, {"billing": (3, 6)})


def test_browsers_get_the_history_of_a_group_and_of_a_topic(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_SAMPLE_S", "_SAMPLE_PERIOD_S"):
        monkeypatch.setattr(f"steelyard.dashboard.rate_history.{name}", 0.05)
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
        with run_members(cluster.namesrv, "billing", "orders", "c1"):
            pass
    first = _points_served(cluster, tmp_path)
    assert _points_served(cluster, tmp_path)[: len(first)] == first
    assert RateHistory(tmp_path).of_group("billing")[-1].lag == 0


def _points_served(cluster: Cluster, folder: Path) -> list[list[object]]:
    """Return the points of a topic that a dashboard serves once it has taken samples."""
    dashboard = Dashboard(cluster.namesrv, DashboardOptions(port=0))
    dashboard.keep_in(folder, with_token=False)
    with dashboard:
        until(lambda: len(get(dashboard, "/api/groups/billing/rates")["points"]) > 2, "samples are taken")
        found: list[list[object]] = get(dashboard, "/api/topics/orders/rates")["points"]
    return found
