"""Producers on the dashboard: who sends, and the broker latency that producers report, live."""

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard import Admin, Message, Producer
from steelyard.client.admin.producers import ProducerBrokerLatency, ProducerStatus
from steelyard.dashboard.api.producers import rank_producers
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.cli.parsing import complaint_about
from tests.dashboard.http_client import stream


@pytest.fixture
def orders(cluster: Cluster) -> Cluster:
    """Have a topic on both brokers."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    return cluster


def seen(values: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Go through what the page is told, each time by group."""
    return ({row["group"]: row for row in value["producers"]} for value in values)


def latency_rows(by_group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the broker latency that the producer has reported by then."""
    return by_group["weighing"]["latency"] or [] if "weighing" in by_group else []


def test_nobody_sends_at_first(dashboard: Dashboard) -> None:
    with stream(dashboard, "/api/producers/live") as values:
        reported = next(values)
    assert (reported["count"], reported["producers"], reported["brokers"]) == (0, [], [])


@pytest.mark.usefixtures("advance")
def test_latency_is_reported_by_producers_that_track_it_and_null_for_the_others(
    orders: Cluster, dashboard: Dashboard
) -> None:
    with (
        Producer(orders.namesrv, group="weighing", avoid_slow_brokers=True) as weighing,
        Producer(orders.namesrv, group="trusting") as trusting,
        stream(dashboard, "/api/producers/live") as values,
    ):
        for _ in range(8):
            weighing.send(Message("orders", b"x"))
            trusting.send(Message("orders", b"x"))
        reported = next(each for each in seen(values) if "trusting" in each and len(latency_rows(each)) == 2)
        assert reported["trusting"]["latency"] is None
        assert reported["trusting"]["brokers"] == ["broker-0", "broker-1"]
        assert [(row["broker"], row["avoided_ms"], row["failures"]) for row in reported["weighing"]["latency"]] == [
            ("broker-0", None, 0),
            ("broker-1", None, 0),
        ]
        orders.kill_broker("broker-1")
        while not any(each.share == 0 for each in weighing.brokers()):
            weighing.send(Message("orders", b"x"))
        row = next(row for each in seen(values) for row in latency_rows(each) if row["avoided_ms"] is not None)
        assert (row["broker"], row["why"], row["failures"]) == ("broker-1", "it failed", 1)


def test_who_avoids_a_broker_is_not_cut_off() -> None:
    avoided = ProducerBrokerLatency("broker-1", 900, None, 0.0, 5_000, "it failed", 1)
    calm = [ProducerStatus("a", f"p{number:04}", "", "", "", ()) for number in range(3_000)]
    worried = ProducerStatus("z", "last", "", "", "", (), latencies=(avoided,))
    assert rank_producers([*calm, worried])[0] == worried


def test_the_command_line_it_shows_is_one(dashboard: Dashboard) -> None:
    with stream(dashboard, "/api/producers/live") as values:
        command = next(values)["command"]
    assert complaint_about(command) is None
