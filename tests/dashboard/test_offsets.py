"""The page's offsets: how far a group is, and moving it with everything shown first."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.dashboard.asking import post, stream
from tests.dashboard.scenes import check_command, members
from tests.live.clusters import until

from steelyard import Admin, Message, Producer, Queue
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.serve.embedded import Cluster

_PREVIEW, _RESET = "/api/groups/billing/offsets/preview", "/api/groups/billing/offsets/reset"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Let a group handle twelve messages of one topic and three of another, and go home."""
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 2)
        admin.create_topic("refunds", 1)
        with Producer(cluster.namesrv) as producer:
            for number in range(12):
                producer.send(Message("orders", b"%d" % number))
        with members(cluster.namesrv, "billing", "orders", "till-1"):
            until(lambda: not sum(row.lag for row in admin.offsets("billing", "orders")), "all are handled")
        yield admin


def _live(page: Page) -> Any:
    with stream(page, "/api/groups/billing/offsets/live") as values:
        return next(values)


def _committed(admin: Admin) -> int:
    return sum(row.committed for row in admin.offsets("billing", "orders"))


def test_it_is_seen_how_far_a_group_is(page: Page, admin: Admin) -> None:
    seen = _live(page)
    assert [row["topic"] for row in seen["rows"]][:4] == ["orders"] * 4
    assert sum(row["committed"] for row in seen["rows"] if row["topic"] == "orders") == 12
    assert (seen["lag"], seen["topics"], seen["members"]) == (0, ["orders"], [])
    with stream(page, "/api/groups/billing/offsets/live") as values:
        admin.reset_offsets("billing", "orders", "first")
        assert any(value["lag"] == 12 for value in values)


def test_a_preview_changes_nothing_and_the_reset_does_what_it_said(page: Page, admin: Admin) -> None:
    before = post(page, _PREVIEW, {"to": "first"})
    assert check_command(before["command"])[:6] == ["offset", "reset", "billing", "--to", "first", "--yes"]
    assert (before["value"]["skipped"], before["value"]["repeated"]) == (0, 12)
    assert len(before["value"]["moves"]) == 4
    assert _committed(admin) == 12
    done = post(page, _RESET, {"to": "first"})
    assert done == before
    assert _committed(admin) == 0


def test_one_queue_alone_can_be_moved(page: Page, admin: Admin) -> None:
    (row,) = [row for row in admin.offsets("billing") if row.queue == Queue("orders", "broker-0", 1)]
    wish = {"to": "-1", "topics": ["orders"], "queues": ["broker-0:1"]}
    (move,) = post(page, _PREVIEW, wish)["value"]["moves"]
    assert (move["before"], move["to"], move["repeated"]) == (row.committed, row.committed - 1, 1)
    words = check_command(post(page, _RESET, wish)["command"])
    assert words[3:9] == ["--to", "-1", "--topic", "orders", "--queue", "broker-0:1"]
    assert _committed(admin) == 11


def test_so_long_ago_becomes_a_time_that_stays(page: Page, admin: Admin) -> None:
    answer = post(page, _PREVIEW, {"to": "2 hours ago", "topics": ["orders"]})
    to = answer["value"]["to"]
    assert abs(datetime.fromisoformat(to) - (datetime.now(UTC) - timedelta(hours=2))) < timedelta(minutes=1)
    assert to in check_command(answer["command"])
    assert post(page, _PREVIEW, {"to": to, "topics": ["orders"]}) == answer
    assert post(page, _RESET, {"to": to, "topics": ["orders"]}) == answer
    assert _committed(admin) == 0


@pytest.mark.usefixtures("admin")
def test_every_target_has_its_command_line(page: Page) -> None:
    for to in ("first", "last", "7", "+2", "-2", "2 hours ago", "2026-11-01T08:00:00Z"):
        check_command(post(page, _PREVIEW, {"to": to})["command"])


@pytest.mark.usefixtures("admin")
def test_a_group_moves_under_its_members(cluster: Cluster, page: Page) -> None:
    seen: list[bytes] = []
    with members(cluster.namesrv, "billing", "orders", "till-1", handle=lambda message: seen.append(message.body)):
        assert post(page, _PREVIEW, {"to": "first"})["value"]["members"] == 1
        post(page, _RESET, {"to": "first"})
        until(lambda: len(seen) == 12, "all came again")


@pytest.mark.usefixtures("admin")
def test_what_makes_no_sense_is_said(page: Page) -> None:
    wishes: list[tuple[dict[str, object], str]] = [
        ({"to": "yesteryear"}, "is no place to move to"),
        ({"to": "first", "queues": ["broker-0:1"]}, "queues are those of a topic"),
        ({"to": "first", "topics": ["orders"], "queues": ["broker-0"]}, "is no queue"),
        ({"to": "first", "topics": ["orders"], "queues": ["broker-0:9"]}, "is no queue that can be read"),
        ({"to": "first", "topics": [str(number) for number in range(200)]}, "cannot be read"),
        ({}, "cannot be read"),
    ]
    for wish, what in wishes:
        assert what in post(page, _PREVIEW, wish, status=400)["what"]


def test_a_page_that_is_read_only_previews_and_moves_nothing(cluster: Cluster, admin: Admin) -> None:
    with Page(cluster.namesrv, PageOptions(port=0, read_only=True)) as page:
        assert post(page, _PREVIEW, {"to": "first"})["value"]["repeated"] == 12
        assert post(page, _RESET, {"to": "first"}, status=403)["kind"] == "ReadOnly"
    assert _committed(admin) == 12
