"""The page's plan of a group: all strategies tried, nothing touched, and the command line that shows the same."""

import json
from typing import Any
from urllib.parse import quote

from click.testing import CliRunner

from steelyard import Admin, Consumer
from steelyard.cli.main import app
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import get
from tests.live.clusters import until


def _plan(dashboard: Dashboard, group: str, **wish: str) -> Any:
    query = "&".join(f"{name}={quote(text)}" for name, text in wish.items())
    return get(dashboard, f"/api/groups/{group}/plan?{query}")


def _of(plan: Any, name: str) -> Any:
    (found,) = [each for each in plan["strategies"] if each["name"] == name]
    return found


def test_a_member_that_leaves_moves_what_it_has_and_the_command_line_says_the_same(
    cluster: Cluster, dashboard: Dashboard
) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 4)
    with run_members(cluster.namesrv, "billing", "orders", "till-1", "till-2"):
        plan = _plan(dashboard, "billing", leave="till-2")
        words = check_command(plan["command"])
        assert words[:5] == ["plan", "--group", "billing", "--leave", "till-2"]
        reported = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
        with Admin(cluster.namesrv) as admin:
            assert len(admin.groups.members("billing")) == 2
    sticky = _of(plan, "sticky")
    assert sticky["is_current"]
    assert plan["chosen"] == "sticky"
    assert (sticky["moved"], sticky["min_moves"]) == (reported["moved"], reported["least"])
    assert sticky["moved"] == sticky["min_moves"] == plan["members"][1]["queues_now"] > 0
    assert {change["why"] for change in sticky["changes"]} == {"owner_left"}
    assert [(each["name"], each["change"]) for each in plan["members"]] == [("till-1", "stays"), ("till-2", "leaves")]
    assert sticky["counts"] == [len(plan["queues"]), 0]
    assert all(owner == 0 for owner in sticky["owners"])


def test_strategies_are_tried_side_by_side_and_those_that_need_settings_say_so(
    cluster: Cluster, dashboard: Dashboard
) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 4)
    with run_members(cluster.namesrv, "billing", "orders", "till-1", "till-2", strategy="average"):
        plan = _plan(dashboard, "billing", join="new-1,new-2", strategy="circle")
    assert plan["chosen"] == "circle"
    assert "--strategy circle" in plan["command"]
    check_command(plan["command"])
    assert [each["name"] for each in plan["strategies"] if each["is_current"]] == ["average"]
    tried = {each["name"] for each in plan["strategies"] if each["unavailable_reason"] is None}
    assert tried == {"average", "circle", "ring", "sticky"}
    assert "needs rooms" in _of(plan, "machine-room")["unavailable_reason"]
    sticky = _of(plan, "sticky")
    assert sticky["moved"] == sticky["min_moves"]
    for each in (_of(plan, name) for name in tried):
        assert each["moved"] >= each["min_moves"]
        assert sum(each["counts"]) == len(plan["queues"])
        moved = [change for change in each["changes"] if change["before"] >= 0 and change["after"] >= 0]
        assert len(moved) == each["moved"]
        owners = [queue["owner"] for queue in plan["queues"]]
        assert [number for number, owner in enumerate(each["owners"]) if owner != owners[number]] == [
            change["queue"] for change in each["changes"]
        ]


def test_who_gets_nothing_is_named(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("few", 1)
    with run_members(cluster.namesrv, "tiny", "few", "till-1"):
        plan = _plan(dashboard, "tiny", join="a,b,c,d,e,f")
    assert _of(plan, "average")["idle"]


def test_an_old_address_is_still_good_for_what_is_left_of_it(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    with run_members(cluster.namesrv, "billing", "orders", "till-1"):
        plan = _plan(dashboard, "billing", leave="gone", join="till-1,a%2Cb", strategy="none-such")
    assert [each["name"] for each in plan["members"]] == ["till-1", "a,b"]
    said = " ".join(plan["notes"])
    assert "gone is not a member any more" in said
    assert "till-1 is a member already" in said
    assert "no strategy called none-such" in said
    assert check_command(plan["command"])[3:5] == ["--join", "a,b"]


def test_a_group_with_nobody_in_it_can_be_planned_too(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    with run_members(cluster.namesrv, "billing", "orders", "till-1"):
        pass
    plan = _plan(dashboard, "billing", join="a,b")
    check_command(plan["command"])
    assert plan["chosen"] == "sticky"
    assert _of(plan, "sticky")["moved"] == 0
    assert all(change["why"] == "new_queue" for change in _of(plan, "sticky")["changes"])


def test_who_reads_everything_has_nothing_to_share(cluster: Cluster, dashboard: Dashboard) -> None:
    consumer = Consumer(cluster.namesrv, "readers", mode="broadcast")
    consumer.handles("news")(lambda _: None)
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("news", 2)
        with consumer:
            until(lambda: admin.groups.members("readers"), "a reader is known")
            plan = _plan(dashboard, "readers")
    assert plan["broadcast"]
    assert not plan["strategies"]
    assert "reads all queues" in plan["notes"][0]


def test_a_wish_has_its_limits(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.groups.create("billing")
    query = f"join={','.join(map(str, range(70)))}"
    assert get(dashboard, f"/api/groups/billing/plan?{query}", status=400)["what"] == "70 members would join"


def test_a_group_that_is_not_there_is_named(dashboard: Dashboard) -> None:
    assert get(dashboard, "/api/groups/nobody/plan", status=404)["kind"] == "GroupNotFound"
