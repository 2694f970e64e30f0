"""Brokers on the page: disk, flushing, the report of the last start, settings; what is not told is null."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard import Message, Producer
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from steelyard.version import __version__
from tests.cli.fake_apache import FakeServer, fake_apache
from tests.cli.parsing import complaint_about
from tests.dashboard.http_client import get, stream


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Cluster, Dashboard]]:
    """Run a broker with a real disk, and its page."""
    with (
        Cluster(brokers=1, data=tmp_path) as cluster,
        Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard,
    ):
        yield cluster, dashboard


def test_all_brokers_are_reported_with_their_health(dashboard: Dashboard, cluster: Cluster) -> None:
    with stream(dashboard, "/api/brokers/live") as values:
        reported = next(values)
    assert [(row["broker"], row["addresses"]["0"], row["problem"]) for row in reported["brokers"]] == [
        ("broker-0", cluster.brokers["broker-0"], None),
        ("broker-1", cluster.brokers["broker-1"], None),
    ]
    assert {(row["product"], row["version"]) for row in reported["brokers"]} == {(f"Steelyard {__version__}", "V5_5_0")}
    health = reported["brokers"][0]["health"]
    assert (health["flush"], health["recovery"]["found"], health["damages"]) == ("async", "nothing", 0)
    assert health["disk_bytes"] is None, "in memory there is no end"
    assert [each["problem"] for each in reported["name_servers"]] == [None]
    assert complaint_about(reported["command"]) is None


def test_what_a_start_after_a_crash_found_is_reported(kept: tuple[Cluster, Dashboard]) -> None:
    cluster, dashboard = kept
    with Producer(cluster.namesrv) as producer:
        for _ in range(5):
            producer.send(Message("orders", b"x"))
    cluster.kill_broker("broker-0")
    cluster.start_broker("broker-0")
    with stream(dashboard, "/api/brokers/broker-0/live") as values:
        reported = next(values)
    start, health = reported["health"]["recovery"], reported["health"]
    assert (start["found"], start["cut_bytes"], health["lost"]) == ("unclosed", 0, [])
    assert start["records"] >= 5
    assert start["read_bytes"] > 0
    assert start["took_ms"] >= 0
    assert health["disk_bytes"] > health["free_bytes"] > 0
    assert (health["log_files"], reported["log_start"]) == (1, 0)
    assert complaint_about(reported["command"]) is None


def test_settings_are_reported_without_what_is_secret(dashboard: Dashboard) -> None:
    reported = get(dashboard, "/api/brokers/broker-0/settings")
    assert reported["settings"]["brokerName"] == "broker-0"
    assert (reported["flush"], reported["flush_interval_ms"]) == ("async", 500)
    assert complaint_about(reported["command"]) is None


def test_of_foreign_brokers_what_is_not_told_is_null() -> None:
    settings = {"flushDiskType": "SYNC_FLUSH", "innerClientAuthenticationCredentials": "hush"}
    dead = FakeServer(address="127.0.0.1:1")
    with (
        fake_apache({"broker-a": {0: FakeServer(settings=settings)}, "broker-b": {0: dead}}) as namesrv,
        Dashboard(namesrv, DashboardOptions(port=0)) as dashboard,
    ):
        with stream(dashboard, "/api/brokers/live") as values:
            first, second = next(values)["brokers"]
        assert {key: first["health"][key] for key in ("disk_bytes", "flush", "recovery", "damages", "refusal")} == {
            "disk_bytes": None,
            "flush": None,
            "recovery": None,
            "damages": None,
            "refusal": None,
        }
        assert first["product"] is None
        assert "cannot be reached" in second["problem"]
        reported = get(dashboard, "/api/brokers/broker-a/settings")
        assert reported["flush"] == "sync"
        assert reported["settings"]["innerClientAuthenticationCredentials"] == "(hidden)"


def test_a_broker_that_is_not_there_is_a_sentence(dashboard: Dashboard) -> None:
    reported = get(dashboard, "/api/brokers/broker-9/settings", status=404)
    assert "known are: broker-0, broker-1" in reported["error"]
    with stream(dashboard, "/api/brokers/broker-9/live") as values:
        assert "knows no broker 'broker-9'" in next(values)["failure"]["error"]
