"""The page's offsets: how far a group is, and moving it with everything shown first."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard import Admin, Message, Producer, Queue
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import post, stream
from tests.live.clusters import until

_PREVIEW, _RESET = "/api/groups/billing/offsets/preview", "/api/groups/billing/offsets/reset"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Let a group handle twelve messages of one topic and three of another, and go home."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
        admin.topics.create("refunds", 1)
        with Producer(cluster.namesrv) as producer:
            for number in range(12):
                producer.send(Message("orders", b"%d" % number))
        with run_members(cluster.namesrv, "billing", "orders", "till-1"):
            until(lambda: not sum(row.lag for row in admin.offsets.list("billing", "orders")), "all are handled")
        yield admin


def _live(dashboard: Dashboard) -> Any:
    with stream(dashboard, "/api/groups/billing/offsets/live") as values:
        return next(values)


def _committed(admin: Admin) -> int:
    return sum(row.committed for row in admin.offsets.list("billing", "orders"))


def test_it_is_seen_how_far_a_group_is(dashboard: Dashboard, admin: Admin) -> None:
    seen = _live(dashboard)
    assert [row["topic"] for row in seen["rows"]][:4] == ["orders"] * 4
    assert sum(row["committed"] for row in seen["rows"] if row["topic"] == "orders") == 12
    assert (seen["lag"], seen["topics"], seen["members"]) == (0, ["orders"], [])
    with stream(dashboard, "/api/groups/billing/offsets/live") as values:
        admin.offsets.reset("billing", "orders", "first")
        assert any(value["lag"] == 12 for value in values)


def test_a_preview_changes_nothing_and_the_reset_does_what_it_said(dashboard: Dashboard, admin: Admin) -> None:
    before = post(dashboard, _PREVIEW, {"to": "first"})
    assert check_command(before["command"])[:6] == ["offset", "reset", "billing", "--to", "first", "--yes"]
    assert (before["value"]["skipped"], before["value"]["repeated"]) == (0, 12)
    assert len(before["value"]["changes"]) == 4
    assert _committed(admin) == 12
    done = post(dashboard, _RESET, {"to": "first"})
    assert done == before
    assert _committed(admin) == 0


def test_one_queue_alone_can_be_moved(dashboard: Dashboard, admin: Admin) -> None:
    (row,) = [row for row in admin.offsets.list("billing") if row.queue == Queue("orders", "broker-0", 1)]
    wish = {"to": "-1", "topics": ["orders"], "queues": ["broker-0:1"]}
    (move,) = post(dashboard, _PREVIEW, wish)["value"]["changes"]
    assert (move["before"], move["to"], move["repeated"]) == (row.committed, row.committed - 1, 1)
    words = check_command(post(dashboard, _RESET, wish)["command"])
    assert words[3:9] == ["--to", "-1", "--topic", "orders", "--queue", "broker-0:1"]
    assert _committed(admin) == 11


def test_so_long_ago_becomes_a_time_that_stays(dashboard: Dashboard, admin: Admin) -> None:
    answer = post(dashboard, _PREVIEW, {"to": "2 hours ago", "topics": ["orders"]})
    to = answer["value"]["to"]
    assert abs(datetime.fromisoformat(to) - (datetime.now(UTC) - timedelta(hours=2))) < timedelta(minutes=1)
    assert to in check_command(answer["command"])
    assert post(dashboard, _PREVIEW, {"to": to, "topics": ["orders"]}) == answer
    assert post(dashboard, _RESET, {"to": to, "topics": ["orders"]}) == answer
    assert _committed(admin) == 0


@pytest.mark.usefixtures("admin")
def test_every_target_has_its_command_line(dashboard: Dashboard) -> None:
    for to in ("first", "last", "7", "+2", "-2", "2 hours ago", "2026-11-01T08:00:00Z"):
        check_command(post(dashboard, _PREVIEW, {"to": to})["command"])


@pytest.mark.usefixtures("admin")
def test_a_group_moves_under_its_members(cluster: Cluster, dashboard: Dashboard) -> None:
    seen: list[bytes] = []
    with run_members(cluster.namesrv, "billing", "orders", "till-1", handle=lambda message: seen.append(message.body)):
        assert post(dashboard, _PREVIEW, {"to": "first"})["value"]["members"] == 1
        post(dashboard, _RESET, {"to": "first"})
        until(lambda: len(seen) == 12, "all came again")


@pytest.mark.usefixtures("admin")
def test_what_makes_no_sense_is_reported(dashboard: Dashboard) -> None:
    wishes: list[tuple[dict[str, object], str]] = [
        ({"to": "yesteryear"}, "is no place to move to"),
        ({"to": "first", "queues": ["broker-0:1"]}, "queues are those of a topic"),
        ({"to": "first", "topics": ["orders"], "queues": ["broker-0"]}, "is no queue"),
        ({"to": "first", "topics": ["orders"], "queues": ["broker-0:9"]}, "is no queue that can be read"),
        ({"to": "first", "topics": [str(number) for number in range(200)]}, "cannot be read"),
        ({}, "cannot be read"),
    ]
    for wish, what in wishes:
        assert what in post(dashboard, _PREVIEW, wish, status=400)["what"]


def test_a_read_only_dashboard_previews_and_moves_nothing(cluster: Cluster, admin: Admin) -> None:
    with Dashboard(cluster.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        assert post(dashboard, _PREVIEW, {"to": "first"})["value"]["repeated"] == 12
        assert post(dashboard, _RESET, {"to": "first"}, status=403)["kind"] == "ReadOnly"
    assert _committed(admin) == 12
