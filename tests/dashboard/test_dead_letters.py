"""The page's dead letters: listed, looked at, and given to their group again with everything shown first."""

from collections.abc import Iterator

import pytest

from steelyard import Admin, Consumer
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, give_up
from tests.dashboard.http_client import get, post
from tests.live.handled import Handled

_LIST = "/api/groups/billing/dead-letters"
_BODIES = (b'{"order": 1}', b"\xff\x00\xfe", b"<b>bold</b>")


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Let a group give three messages up."""
    give_up(cluster.namesrv, "billing", "orders", *_BODIES)
    with Admin(cluster.namesrv) as admin:
        yield admin


@pytest.mark.usefixtures("admin")
def test_groups_that_gave_something_up_are_listed(dashboard: Dashboard) -> None:
    answer = get(dashboard, "/api/dead-letters")
    assert [(row["group"], row["messages"]) for row in answer["groups"]] == [("billing", 3)]
    assert answer["messages"] == 3
    check_command(answer["command"])


def test_nothing_given_up_is_an_empty_list(dashboard: Dashboard) -> None:
    assert get(dashboard, "/api/dead-letters")["groups"] == []


@pytest.mark.usefixtures("admin")
def test_the_dead_letters_of_a_group_come_newest_first(dashboard: Dashboard) -> None:
    answer = get(dashboard, _LIST)
    assert (answer["total"], answer["max_retries"]) == (3, 0)
    rows = answer["rows"]
    assert sorted(row["message"]["stored_ms"] for row in rows) == [row["message"]["stored_ms"] for row in rows][::-1]
    assert {(row["topic"], row["attempts"], row["message"]["tag"]) for row in rows} == {("orders", 1, "sad")}
    assert {row["error"] for row in rows} == {"ValueError: no"}
    assert len(get(dashboard, f"{_LIST}?most=2")["rows"]) == 2
    check_command(answer["command"])


def test_one_is_shown_whole_with_where_it_came_from(dashboard: Dashboard, admin: Admin) -> None:
    found = {}
    for row in get(dashboard, _LIST)["rows"]:
        whole = get(dashboard, f"{_LIST}/{row['id']}")
        assert whole["row"] == row
        assert (whole["resent"], whole["notes"]) == (None, [])
        check_command(whole["command"])
        origin = whole["origin"]
        assert origin["topic"] == "orders"
        there = {
            (each.queue.broker, each.queue.queue_id, each.offset): each.body for each in admin.messages.list("orders")
        }
        found[there[origin["broker"], origin["queue_id"], origin["offset"]]] = whole["body"]
    assert found.keys() == set(_BODIES)
    assert found[_BODIES[0]]["text"] == _BODIES[0].decode()
    assert not found[_BODIES[1]]["is_text"]


@pytest.mark.usefixtures("admin")
def test_one_that_is_not_there_is_named(dashboard: Dashboard) -> None:
    assert get(dashboard, f"{_LIST}/7F0000010000000000000000DEADBEEF", status=404)["kind"] == "NoMessage"
    assert get(dashboard, f"{_LIST}/x", status=400)["kind"] == "ConfigurationError"
    assert get(dashboard, "/api/groups/nobody/dead-letters", status=404)["kind"] == "GroupNotFound"


def test_some_are_sent_again_and_come_to_their_group(cluster: Cluster, dashboard: Dashboard, admin: Admin) -> None:
    ids = [row["id"] for row in get(dashboard, _LIST)["rows"]][:2]
    wish = {"ids": ids}
    preview = post(dashboard, f"{_LIST}/preview", wish)
    assert [row["id"] for row in preview["value"]["rows"]] == ids
    words = check_command(preview["command"])
    assert words[:7] == ["dead-letters", "resend", "billing", "--id", ids[0], "--id", ids[1]]
    handled = Handled()
    consumer = Consumer(cluster.namesrv, "billing")
    consumer.handles("orders")(handled)
    with consumer:
        done = post(dashboard, f"{_LIST}/resend", wish)
        assert done["value"]["messages"] == 2
        handled.wait(2)
    assert all("@" in get(dashboard, f"{_LIST}/{id_}")["resent"]["by"] for id_ in ids)
    assert len(admin.dead_letters.list("billing")) == 3


def test_all_are_those_that_the_preview_counted(cluster: Cluster, dashboard: Dashboard, admin: Admin) -> None:
    preview = post(dashboard, f"{_LIST}/preview", {"all": True})
    assert preview["value"]["messages"] == len(preview["value"]["rows"]) == 3
    assert "--all" in check_command(preview["command"])
    give_up(cluster.namesrv, "billing", "orders", *_BODIES, b"late")
    done = post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": preview["value"]["ranges"]})
    assert done["value"]["messages"] == 3
    assert len(admin.messages.list("%RETRY%billing")) == 3


def test_a_wish_says_which(dashboard: Dashboard) -> None:
    wishes: list[dict[str, object]] = [{}, {"ids": ["a"], "all": True}, {"ids": [str(each) for each in range(300)]}]
    for wish in wishes:
        post(dashboard, f"{_LIST}/preview", wish, status=400)


@pytest.mark.usefixtures("admin")
def test_hostile_ends_send_nothing_that_is_not_there(dashboard: Dashboard) -> None:
    (end,) = post(dashboard, f"{_LIST}/preview", {"all": True})["value"]["ranges"][:1]
    far = {**end, "start": 1_000, "end": 1_500}
    assert post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": [far]})["value"]["messages"] == 0
    back = {**end, "start": 1 << 40, "end": 0}
    assert post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": [back]})["value"]["messages"] == 0
    too_many = {**end, "start": 0, "end": 1 << 40}
    post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": [too_many, back]}, status=400)
    post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": [{**end, "start": -1}]}, status=400)
    post(dashboard, f"{_LIST}/resend", {"all": True, "ranges": [{**end, "broker": "nowhere"}]}, status=400)


def test_a_read_only_dashboard_previews_and_sends_nothing(cluster: Cluster, admin: Admin) -> None:
    with Dashboard(cluster.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        assert post(dashboard, f"{_LIST}/preview", {"all": True})["value"]["messages"] == 3
        assert post(dashboard, f"{_LIST}/resend", {"all": True}, status=403)["kind"] == "ReadOnly"
    assert not admin.topics.describe("%RETRY%billing").messages
