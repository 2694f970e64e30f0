"""Settings for single members reach them: by name, whatever else is in an id, or by the whole id."""

import pytest

from steelyard.balance.assignors import find_strategy, plan
from steelyard.balance.assignors.strategy import check_member_tables, member_name, member_tables_of
from steelyard.client.ids import client_id
from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from tests.balance.evenness import queues_of

OURS = client_id("10.0.0.7", "till-1")
NAMELESS = client_id("10.0.0.7")
JAVA, JAVA_BY_PROCESS = "10.0.0.8@blue", "10.0.0.8@4711#81723648172"


def test_a_name_is_found_in_the_ids_of_ours_and_of_java() -> None:
    assert [member_name(each) for each in (OURS, NAMELESS, JAVA, JAVA_BY_PROCESS)] == ["till-1", None, "blue", None]
    assert member_name(client_id("fe80::1", "a.b_c-1")) == "a.b_c-1"
    assert member_name("10.0.0.8@blue@unit") == "blue"
    assert [member_name(each) for each in ("", "c1", "@", "@sy1", "c1@sy1", "10.0.0.1@7#12@sy1")] == [None] * 6


@pytest.mark.parametrize("key", ["till-1", OURS], ids=["name", "id"])
def test_a_weight_reaches_its_member(key: str) -> None:
    made = plan(find_strategy("sticky", {"weights": {key: 3}}), "billing", queues_of(8), [OURS, NAMELESS])
    assert len(made[OURS]) == 6


@pytest.mark.parametrize("key", ["till-1", OURS], ids=["name", "id"])
def test_topics_reach_their_member(key: str) -> None:
    made = plan(find_strategy("sticky", {"topics": {key: ["t0"]}}), "billing", queues_of(2, 2), [OURS, NAMELESS])
    assert {queue.topic for queue in made[OURS]} == {"t0"}
    assert {queue.topic for queue in made[NAMELESS]} >= {"t1"}


@pytest.mark.parametrize(("mine", "javas"), [("till-1", "blue"), (OURS, JAVA)], ids=["name", "id"])
def test_machine_rooms_reach_their_members(mine: str, javas: str) -> None:
    east, west = Queue("t", "east@a", 0), Queue("t", "west@b", 0)
    strategy = find_strategy("machine-room-nearby", {"member_rooms": {mine: "east", javas: "west"}})
    assert plan(strategy, "billing", [east, west], [OURS, JAVA]) == {OURS: [east], JAVA: [west]}


@pytest.mark.parametrize("key", ["till-1", OURS], ids=["name", "id"])
def test_fixed_lists_reach_their_member(key: str) -> None:
    (queue,) = queues_of(1)
    strategy = find_strategy("config", {"queues": {key: [list(queue)]}})
    assert plan(strategy, "billing", [queue], [OURS]) == {OURS: [queue]}


def test_an_id_counts_before_a_name() -> None:
    strategy = find_strategy("sticky", {"weights": {"till-1": 1, OURS: 3}})
    assert len(plan(strategy, "billing", queues_of(8), [OURS, NAMELESS])[OURS]) == 6


def test_the_tables_of_an_inner_strategy_are_checked_too() -> None:
    settings = {"member_rooms": {"till-1": "east"}, "weights": {"no such": 2}}
    tables = member_tables_of(find_strategy("machine-room-nearby-sticky", settings))
    assert [(table.setting, table.is_for_all) for table in tables] == [("member_rooms", True), ("weights", False)]
    with pytest.raises(ConfigurationError, match="'no such', which cannot be the name of a member"):
        check_member_tables(tables, OURS)
