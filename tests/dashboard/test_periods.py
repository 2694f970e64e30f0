"""How soon a page shows what happened, in production: tests of pages have a tenth of these periods, and no clock."""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

import pytest

from steelyard import Admin
from steelyard.client.producer import latency_report
from steelyard.dashboard import cluster_poller
from steelyard.dashboard.api import groups
from steelyard.dashboard.polling import PollFailure, SharedPolls
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.http_client import stream

pytestmark = pytest.mark.usefixtures("whole_intervals")


def test_joins_and_kills_are_shown_within_two_seconds_and_lag_and_avoided_brokers_too(
    cluster: Cluster, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled_ms: dict[Hashable, int] = {}
    subscribe = SharedPolls.subscribe

    def noted(
        polls: SharedPolls, key: Hashable, period_ms: int, poll: Callable[[Any], Awaitable[Any]]
    ) -> AsyncIterator[Any | PollFailure]:
        polled_ms[key] = period_ms
        return subscribe(polls, key, period_ms, poll)

    monkeypatch.setattr(SharedPolls, "subscribe", noted)
    with Admin(cluster.namesrv) as admin:
        admin.groups.create("billing")
    pages = ["groups/billing/live", "groups/billing/offsets/live", "producers/live", "brokers/live"]
    for page in pages:
        with stream(dashboard, f"/api/{page}") as values:
            assert "failure" not in next(values)
    join_or_kill_ms = polled_ms["group", "billing"]
    lag_ms = polled_ms["/api/groups/billing/offsets/live"]
    avoided_ms = 1_000 * latency_report._MIN_INTERVAL_S + polled_ms["/api/producers/live"]
    broker_ms = polled_ms["/api/brokers/live"]
    # A group that was rebalanced is said to be stable once nothing has moved for a while.
    assert join_or_kill_ms + groups._SETTLE_MS <= 2_000
    assert join_or_kill_ms <= 500
    assert lag_ms <= 1_000
    assert avoided_ms <= 2_000
    assert max(broker_ms, groups._MEMBER_POLL_MS, cluster_poller._PERIOD_MS) <= 2_000
