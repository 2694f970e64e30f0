"""What the page is told of groups: the list, the grid, and what is new in both as it happens."""

from collections.abc import Iterator
from typing import Any

from steelyard import Admin, Message, Producer
from steelyard.client.admin.group_description import GroupFacts, MemberDescription, describe_group
from steelyard.dashboard.api.groups import group_status
from steelyard.dashboard.server import Dashboard
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.dashboard.foreign_members import ForeignMember
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import get, stream
from tests.live.clusters import until


def _owners(now: dict[str, Any]) -> dict[str, list[str]]:
    """Return who has what, by the names that tests gave."""
    names = [member["id"].split("@")[1].split("#")[0] for member in now["members"]]
    return {
        f"{part['broker']}:{queue}": [names[place] for place in places]
        for part in now["queue_grids"]
        if not part["retry"]
        for queue, places in zip(part["queues"], part["owners"], strict=True)
    }


def _until_shared(values: Iterator[Any], *names: str) -> None:
    """Follow a group until these members have come to rest, and each of them has a queue."""
    for value in values:
        now: dict[str, Any] = value["status"]
        owners = {owner for each in _owners(now).values() for owner in each}
        if now["state"] == "stable" and len(now["members"]) == len(names) and owners == set(names):
            return
    raise AssertionError("the stream ended")


def _row(dashboard: Dashboard, name: str) -> dict[str, Any]:
    """Return a group of the list, once it was looked at."""
    found: dict[str, dict[str, Any]] = {}

    def is_seen() -> bool:
        found.update({row["name"]: row for row in get(dashboard, "/api/groups")["groups"] if row["at_ms"] is not None})
        return name in found

    until(is_seen, f"{name} is looked at")
    return found[name]


def test_the_list_tells_who_reads_what_and_how_far_behind(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 4)
        admin.groups.create("idlers")
        for _ in range(5):
            producer.send(Message("orders", b"x"))
        with run_members(cluster.namesrv, "billing", "orders", "c1", "c2"):
            billing, idlers = _row(dashboard, "billing"), _row(dashboard, "idlers")
            check_command(get(dashboard, "/api/groups")["command"])
    assert (billing["members"], billing["queues"]) == (2, 8)
    assert (billing["topics"], billing["strategy"], billing["kind"]) == (["orders"], "STICKY", "push")
    assert billing["warnings"] == []
    assert (idlers["members"], idlers["topics"]) == (0, [])


def test_the_grid_has_one_owner_for_every_queue(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    with run_members(cluster.namesrv, "billing", "orders", "c1", "c2"):
        now = get(dashboard, "/api/groups/billing")
    assert sorted(owners[0] for owners in _owners(now).values()) == ["c1", "c1", "c2", "c2"]
    assert [part["retry"] for part in now["queue_grids"]] == [False, False, True, True]
    assert all(member["is_steelyard"] and member["address"] for member in now["members"])


def test_a_stream_tells_who_joins_and_who_leaves(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    with (
        run_members(cluster.namesrv, "billing", "orders", "c1"),
        stream(dashboard, "/api/groups/billing/live") as values,
    ):
        first = next(values)
        assert first["is_full"]
        assert first["is_persisted"]
        assert {line.split()[2] for line in map(_checked, first["commands"].values())} == {
            "show",
            "explain",
            "watch",
            "moves",
        }
        _until_shared(values, "c1")
        with run_members(cluster.namesrv, "billing", "orders", "c2", of=2):
            _until_shared(values, "c1", "c2")
        _until_shared(values, "c1")


def _checked(line: str) -> str:
    check_command(line)
    return line


def test_more_members_than_queues_leaves_some_idle_and_reports_it(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1, brokers=["broker-0"])
    with (
        run_members(cluster.namesrv, "billing", "orders", "c1"),
        run_members(cluster.namesrv, "billing", "orders", "c2", of=2),
    ):
        now = get(dashboard, "/api/groups/billing")
        listed = _row(dashboard, "billing")
    assert [member["idle"] for member in now["members"]].count(True) == 1
    assert "nothing to do" in " ".join(now["warnings"])
    assert "nothing to do" in " ".join(listed["warnings"])


def test_two_members_with_one_id_are_a_warning(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
    with ForeignMember(cluster.namesrv) as one, ForeignMember(cluster.namesrv) as two:
        one.join("10.0.0.7@worker", "billing", "orders")
        two.join("10.0.0.7@worker", "billing", "orders")
        sentences = " ".join(get(dashboard, "/api/groups/billing")["warnings"])
        listed = " ".join(_row(dashboard, "billing")["warnings"])
    assert "10.0.0.7@worker on several connections" in sentences
    assert "worker on several connections" in listed


def test_a_group_that_is_not_there_is_reported(dashboard: Dashboard) -> None:
    assert get(dashboard, "/api/groups/nowhere", status=404)["kind"] == "GroupNotFound"
    with stream(dashboard, "/api/groups/nowhere/live") as values:
        assert next(values)["failure"]["kind"] == "GroupNotFound"


def test_queues_of_two_owners_and_of_none_are_not_stable() -> None:
    one, two = Queue("orders", "a", 0), Queue("orders", "a", 1)
    facts = GroupFacts(
        group="billing",
        at_ms=5,
        members=(MemberDescription("c1"), MemberDescription("c2")),
        queues=(one, two),
        claimed={"c1": frozenset({one}), "c2": frozenset({one})},
    )
    now = group_status(describe_group(facts))
    assert now.queue_grids[0].owners == ((0, 1), ())
    assert now.state == "rebalancing"
    assert any("handled twice" in warning for warning in now.warnings)


def test_an_owner_that_is_no_member_any_more_has_a_column() -> None:
    queue = Queue("orders", "a", 0)
    facts = GroupFacts(
        group="billing", at_ms=5, members=(MemberDescription("c1"),), queues=(queue,), locked={queue: "c0"}
    )
    now = group_status(describe_group(facts))
    assert [member.id for member in now.members] == ["c1", "c0"]
    assert now.queue_grids[0].owners == ((1,),)


def test_everybody_reads_everything_of_a_broadcast() -> None:
    queues = (Queue("news", "a", 0), Queue("news", "a", 1))
    facts = GroupFacts(
        group="screens",
        at_ms=5,
        broadcast=True,
        members=(MemberDescription("c1"), MemberDescription("c2")),
        queues=queues,
    )
    now = group_status(describe_group(facts))
    assert now.queue_grids[0].owners == ((0, 1), (0, 1))
    assert (now.state, now.lag, now.warnings) == ("stable", None, ())
    assert "keeps its own offsets" in now.notes[0]
