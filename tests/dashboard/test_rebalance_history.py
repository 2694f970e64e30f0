"""The history of moves as the page gets it: what brokers kept, and what it saw itself where they keep nothing."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steelyard import Admin
from steelyard.broker.options import BrokerOptions
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.rebalance_history import HistoryRecord, ObservedMoves
from steelyard.dashboard.server import Dashboard
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.dashboard.group_scenes import check_command, run_members
from tests.dashboard.http_client import get
from tests.live.clusters import until

_QUEUES = [Queue("orders", broker, number) for broker in ("a", "b") for number in range(3)]
_NAMES = ("c1", "c2", "c3")


def _view(at_ms: int, owners: dict[Queue, str | None], *names: str) -> GroupDescription:
    claimed = {name: frozenset(queue for queue, owner in owners.items() if owner == name) for name in names}
    facts = GroupFacts(
        group="billing",
        at_ms=at_ms,
        members=tuple(map(MemberDescription, names)),
        queues=tuple(owners),
        claimed=claimed,
    )
    return describe_group(facts)


def _whys(dashboard: Dashboard) -> set[str]:
    records: list[Any] = get(dashboard, "/api/groups/billing/history")["records"]
    return {move["why"].split("@")[-1].split(" ", 1)[-1] for record in records for move in record["moves"]}


def test_the_history_survives_a_restart_of_dashboard_and_broker(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)
        with run_members(cluster.namesrv, "billing", "orders", "c1"):
            with run_members(cluster.namesrv, "billing", "orders", "c2", of=2):
                pass
            until(lambda: {"joined", "left"} <= _whys(dashboard), "both moves are told")
        before = get(dashboard, "/api/groups/billing/history")
    assert before["is_persisted"]
    assert before["notes"] == []
    check_command(before["command"])
    with Cluster(data=tmp_path) as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
        after = get(dashboard, "/api/groups/billing/history")
    known = [record["key"] for record in after["records"]]
    assert [key for key in known if key in {record["key"] for record in before["records"]}] == [
        record["key"] for record in before["records"]
    ]


def test_every_record_has_the_whole_grid_of_its_broker(cluster: Cluster, dashboard: Dashboard) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 4)
    with (
        run_members(cluster.namesrv, "billing", "orders", "c1"),
        run_members(cluster.namesrv, "billing", "orders", "c2", of=2),
    ):
        now = get(dashboard, "/api/groups/billing")

        def is_reported() -> bool:
            records = get(dashboard, "/api/groups/billing/history")["records"]
            shown: dict[tuple[str, str], list[list[str]]] = {}
            for record in records:
                for broker, topics in record["owners"].items():
                    for topic, row in topics.items():
                        shown[broker, topic] = [[record["owner_names"][place]] if place >= 0 else [] for place in row]
            ids = [member["id"] for member in now["members"]]
            return shown == {
                (part["broker"], part["topic"]): [[ids[place] for place in places] for places in part["owners"]]
                for part in now["queue_grids"]
            }

        until(is_reported, "the last records tell what the grid shows")


def test_where_nobody_keeps_a_history_the_dashboard_reports_what_it_saw() -> None:
    options = BrokerOptions(keep_rebalance_history=False)
    with Cluster(broker_options=options) as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)
        with run_members(cluster.namesrv, "billing", "orders", "c1"):
            get(dashboard, "/api/groups/billing/history")
            with run_members(cluster.namesrv, "billing", "orders", "c2", of=2):
                reported = get(dashboard, "/api/groups/billing/history")
    assert not reported["is_persisted"]
    first, last = reported["records"][0], reported["records"][-1]
    assert first["moves"] == []
    assert {move["broker"] for move in last["moves"]} == {"broker-0"}
    assert all(move["why"].startswith("seen after") and move["gap_ms"] is None for move in last["moves"])
    assert "no broker of this cluster records a rebalance history" in reported["notes"][0]


def test_a_queue_whose_owner_did_not_answer_has_not_moved() -> None:
    seen, queue = ObservedMoves(), _QUEUES[0]
    seen.observe(_view(1, {queue: "c1"}, "c1"))
    assert seen.observe(_view(2, {queue: None}, "c1")) is None
    gone = seen.observe(_view(3, {queue: None}))
    assert gone is not None
    assert [(move.before, move.after) for move in gone.moves] == [("c1", None)]


def test_a_reason_is_named_while_it_is_not_long_ago() -> None:
    seen, queue = ObservedMoves(), _QUEUES[0]
    seen.observe(_view(1, {queue: "c1"}, "c1"))
    seen.observe(_view(1_000, {queue: "c1"}, "c1", "c2"))
    soon = seen.observe(_view(20_000, {queue: "c2"}, "c1", "c2"))
    late = seen.observe(_view(200_000, {queue: "c1"}, "c1", "c2"))
    assert soon is not None
    assert late is not None
    assert [move.why for move in (*soon.moves, *late.moves)] == ["seen after c2 joined", "unknown"]


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from(_NAMES)), st.lists(st.integers(0, 3), min_size=len(_QUEUES), max_size=len(_QUEUES))
        ),
        min_size=1,
        max_size=8,
    )
)
def test_moves_that_were_seen_lead_from_one_grid_to_the_next(polls: list[tuple[set[str], list[int]]]) -> None:
    seen, held = ObservedMoves(), dict[Queue, str | None]()
    for at_ms, (names, choice) in enumerate(polls):
        there = sorted(names)
        reported = {
            queue: there[place] if place < len(there) else None for queue, place in zip(_QUEUES, choice, strict=True)
        }
        record = seen.observe(_view(at_ms, reported, *there))
        if at_ms:
            for move in () if record is None else record.moves:
                queue = Queue(move.topic, move.broker, move.queue)
                assert held[queue] == move.before
                held[queue] = move.after
        else:
            held = dict(reported)
        shown = held if record is None else _shown(record)
        # A member that is online and was not reported to have lost a queue still has it.
        for queue, owner in reported.items():
            assert shown[queue] == held[queue]
            assert owner is None or shown[queue] == owner


def _shown(record: HistoryRecord) -> dict[Queue, str | None]:
    found: dict[Queue, str | None] = {}
    for broker, topics in record.owners.items():
        for topic, row in topics.items():
            for number, place in enumerate(row):
                assert isinstance(place, int)
                found[Queue(topic, broker, number)] = record.owner_names[place] if place >= 0 else None
    return found
