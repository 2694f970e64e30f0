"""Topics are created, changed and deleted, and messages sent, each after a preview, audited, and with its command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard import Admin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.model import Permission, Queue
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import post


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """Return the file of the audit log."""
    return tmp_path / "audit.jsonl"


@pytest.fixture
def dashboard(cluster: Cluster, audit: Path) -> Iterator[Dashboard]:
    """Run a dashboard that keeps an audit log."""
    with Dashboard(cluster.namesrv, DashboardOptions(port=0, audit_file=audit)) as running:
        yield running


def _both(dashboard: Dashboard, topic: str, change: str, wanted: object) -> tuple[Any, Any]:
    """Preview a change and make it; both show the same command."""
    path = f"/api/topics/{topic}/{change}"
    preview, done = post(dashboard, f"{path}/preview", wanted), post(dashboard, path, wanted)
    assert preview["command"] == done["command"]
    check_command(preview["command"])
    return preview["value"], done["value"]


def test_a_topic_is_created_as_its_preview_says(cluster: Cluster, dashboard: Dashboard, audit: Path) -> None:
    with Admin(cluster.namesrv) as admin:
        post(dashboard, "/api/topics/orders/create/preview", {"queues": 3, "may": "read"})
        assert not admin.topics.list()
        preview, done = _both(dashboard, "orders", "create", {"queues": 3, "may": "read"})
        assert preview == done
        assert [(each["broker"], each["what"]) for each in done["changes"]] == [
            ("broker-0", "create"),
            ("broker-1", "create"),
        ]
        assert [(each.read_queues, each.permission) for each in admin.topics.configs("orders").values()] == [
            (3, Permission.READ)
        ] * 2
    (entry,) = map(json.loads, audit.read_text().splitlines())
    assert entry["what"] == f"steelyard topic create orders --queues 3 --may read --namesrv {cluster.namesrv}"
    assert entry["outcome"] == "done"


def test_a_topic_that_exists_otherwise_is_not_created(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    for path in ("create/preview", "create"):
        failure = post(dashboard, f"/api/topics/orders/{path}", {"queues": 4}, status=400)
        assert failure["kind"] == "TopicExists"
        assert "with other settings on broker-0, broker-1" in failure["error"]
    assert (
        "the topic 'a b' may only have letters"
        in post(dashboard, "/api/topics/a%20b/create", {"queues": 4}, status=400)["error"]
    )
    assert post(dashboard, "/api/topics/new/create", {"queues": 0}, status=400)["kind"] == "ConfigurationError"


def test_settings_change_and_what_is_not_given_stays(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 4)
        preview, _ = _both(dashboard, "orders", "settings", {"read_queues": 3, "write_queues": 2, "may": "write"})
        assert [each["hidden"] for each in preview["changes"]] == [1, 1]
        _both(dashboard, "orders", "settings", {"order": True})
        assert {
            (each.read_queues, each.write_queues, each.permission) for each in admin.topics.configs("orders").values()
        } == {(3, 2, Permission.WRITE)}
        assert admin.topics.order("orders") == {"broker-0": 2, "broker-1": 2}
    assert "no change of topic" in post(dashboard, "/api/topics/orders/settings", {}, status=400)["error"]
    assert post(dashboard, "/api/topics/none/settings", {"may": "read"}, status=404)["kind"] == "TopicNotFound"


def test_a_topic_is_deleted_with_its_messages(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1)
        with run_members(cluster.namesrv, "billing", "orders", "c1"):
            post(dashboard, "/api/topics/orders/send", {"body": "x"})
            preview = post(dashboard, "/api/topics/orders/delete/preview", {})["value"]
        assert preview == {
            "topic": "orders",
            "messages": 1,
            "brokers": ["broker-0", "broker-1"],
            "groups": ["billing"],
        }
        done = post(dashboard, "/api/topics/orders/delete", {})
        assert done["value"]["messages"] == 1
        check_command(done["command"])
        assert not admin.topics.list()


def test_a_message_is_sent_as_it_was_written(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1)
        wanted = {"body": "-你好\n$x", "tags": "paid", "keys": ["order-1", "order-2"], "key": "customer"}
        preview, done = _both(dashboard, "orders", "send", wanted)
        assert (preview["size"], preview["groups"]) == (len("-你好\n$x".encode()), [])
        found = admin.messages.at(Queue(done["topic"], done["broker"], done["queue"]), done["offset"])
    assert found is not None
    assert (found.body.decode(), found.tags, found.keys) == (wanted["body"], "paid", ("order-1", "order-2"))


@pytest.mark.parametrize("change", ["create", "settings", "delete", "send"])
def test_a_read_only_dashboard_changes_no_topic(cluster: Cluster, change: str) -> None:
    with Dashboard(cluster.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        assert post(dashboard, f"/api/topics/orders/{change}", {}, status=403)["kind"] == "ReadOnly"
