"""Strategies are found by Java's names and ours, by a user's name, by a path, or are handed over as they are."""

from collections.abc import Sequence
from typing import cast

import pytest

from steelyard.balance.assignors import (
    BUILT_IN_STRATEGIES,
    Average,
    AverageByCircle,
    ByConfig,
    ConsistentHash,
    CustomStrategy,
    MachineRoom,
    MachineRoomNearby,
    Sticky,
    StrategyFunction,
    find_strategy,
    plan,
    read_strategy_options,
)
from steelyard.errors import AllocationError, ConfigurationError, UnknownStrategy
from steelyard.model import Queue
from tests.balance.evenness import queues_of

_CONFIG: dict[str, object] = {
    "rooms": ["east"],
    "member_rooms": {"c1": "east", "c2": "east"},
    "queues": [["t0", "broker-a", 1]],
    "virtual_nodes": 3,
}


def _last_takes_all(_group: str, member: str, queues: Sequence[Queue], members: Sequence[str]) -> Sequence[Queue]:
    return queues if member == members[-1] else []


@pytest.mark.parametrize(
    ("ours", "java", "made"),
    [
        ("average", "AVG", Average()),
        ("circle", "AVG_BY_CIRCLE", AverageByCircle()),
        ("config", "CONFIG", ByConfig([Queue("t0", "broker-a", 1)])),
        ("machine-room", "MACHINE_ROOM", MachineRoom(frozenset({"east"}))),
        ("ring", "CONSISTENT_HASH", ConsistentHash(3)),
        ("sticky", "STICKY", Sticky()),
    ],
)
def test_both_names_find_the_strategy_in_any_case(ours: str, java: str, made: object) -> None:
    for name in (ours, java, ours.upper(), java.lower(), java.replace("_", "-"), f" {ours} "):
        strategy = find_strategy(name, _CONFIG)
        assert strategy == made
        assert strategy.name == java


@pytest.mark.parametrize(
    ("name", "java"),
    [
        ("machine-room-nearby", "MACHINE_ROOM_NEARBY-AVG"),
        ("MACHINE_ROOM_NEARBY", "MACHINE_ROOM_NEARBY-AVG"),
        ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE"),
        ("machine-room-nearby-sticky", "MACHINE_ROOM_NEARBY-STICKY"),
        ("machine_room_nearby-MACHINE_ROOM_NEARBY-ring", "MACHINE_ROOM_NEARBY-MACHINE_ROOM_NEARBY-CONSISTENT_HASH"),
    ],
)
def test_nearby_names_its_inner_strategy(name: str, java: str) -> None:
    strategy = find_strategy(name, _CONFIG)
    assert isinstance(strategy, MachineRoomNearby)
    assert strategy.name == java
    assert len(plan(strategy, "billing", queues_of(4, broker="east@x"), ["c1", "c2"])) == 2


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("avrage", "average"),
        ("CONSISTANT_HASH", "CONSISTENT_HASH"),
        ("MACHINE_ROOM_NEARBY-avrage", "average"),
        ("?", None),
        ("", None),
    ],
)
def test_an_unknown_name_says_which_is_nearest(name: str, nearest: str | None) -> None:
    with pytest.raises(UnknownStrategy) as caught:
        find_strategy(name, _CONFIG)
    assert caught.value.nearest == nearest
    assert caught.value.known == BUILT_IN_STRATEGIES.names


def test_a_path_is_loaded_by_the_function_that_may_import() -> None:
    asked: list[str] = []

    def load(path: str) -> StrategyFunction:
        asked.append(path)
        return _last_takes_all

    strategy = find_strategy("shop.balance:last", load=load)
    assert (strategy.name, asked) == ("shop.balance:last", ["shop.balance:last"])
    with pytest.raises(UnknownStrategy):
        find_strategy("shop.balance:last")


def test_a_callable_is_a_strategy_and_a_strategy_stays_itself() -> None:
    ring = ConsistentHash(5)
    assert find_strategy(ring) is ring
    assert find_strategy(_last_takes_all) == CustomStrategy("_last_takes_all", _last_takes_all)


@pytest.mark.parametrize("choice", [Sticky, 3, None])
def test_what_cannot_be_asked_is_refused(choice: object) -> None:
    with pytest.raises(ConfigurationError, match="is no allocation strategy"):
        find_strategy(cast("str", choice))


def test_what_a_users_strategy_does_wrong_is_an_error_that_names_it() -> None:
    def fails(*_: object) -> list[Queue]:
        return [][0]

    def invents(*_: object) -> list[Queue]:
        return [Queue("elsewhere", "broker-z", 7)]

    def gives_up(*_: object) -> list[Queue]:
        raise AllocationError("not today")

    def ends_everything(*_: object) -> list[Queue]:
        raise SystemExit(3)

    for rule, message in (
        (fails, "'mine' failed.*IndexError"),
        (invents, "elsewhere@broker-z:7"),
        (gives_up, "not today"),
        (ends_everything, "'mine' failed.*SystemExit"),
    ):
        with pytest.raises(AllocationError, match=message):
            plan(CustomStrategy("mine", rule), "billing", queues_of(2), ["c1"])


def test_a_users_strategy_may_use_up_its_lists_and_name_a_queue_twice() -> None:
    def pops(_group: str, member: str, queues: list[Queue], members: list[str]) -> list[Queue]:
        last = queues.pop()
        members.clear()
        return [last, last] if member == "c1" else queues

    queues = queues_of(3)
    shared = plan(CustomStrategy("mine", cast("StrategyFunction", pops)), "billing", queues, ["c1", "c2"])
    assert shared == {"c1": queues[2:], "c2": queues[:2]}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rooms": "east"}, "at rooms"),
        ({"virtual_nodes": "ten"}, "at virtual_nodes"),
        ({"queues": [["t", "b", "one"]]}, r"at queues\[0\]\[2\]"),
        ({"queues": [["t", "b"]]}, r"at queues\[0\]"),
        ({"member_rooms": ["east"]}, "at member_rooms"),
        ({"weights": {"c1": "heavy"}}, r"at weights"),
        ({"lags": [[["t", "b", 0], "many"]]}, r"at lags\[0\]\[1\]"),
        ({"room": ["east"]}, "unknown field `room`"),
    ],
)
def test_a_wrong_field_is_named(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_strategy_options(config)


@pytest.mark.parametrize(
    ("name", "field"),
    [("config", "queues"), ("machine-room", "rooms"), ("machine-room-nearby", "member_rooms")],
)
def test_a_missing_field_is_named_by_the_strategy_that_needs_it(name: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"needs {field}"):
        find_strategy(name)


def test_a_strategy_is_made_from_a_whole_configuration() -> None:
    queues = queues_of(3)
    lists = {"queues": {"c1": [["t0", "broker-a", 0]], "c2": [["t0", "broker-a", 1], ["t0", "broker-a", 2]]}}
    assert plan(find_strategy("config", lists), "billing", queues, ["c1", "c2"]) == {"c1": queues[:1], "c2": queues[1:]}
    made = find_strategy("sticky", {"weights": {"c1": 2}, "lags": [[["t0", "broker-a", 0], 9]], "budget": 1})
    assert made == Sticky(weights={"c1": 2.0}, lags={queues[0]: 9}, budget=1)
    assert find_strategy("sticky", {"topics": {"c1": ["t0"]}}) == Sticky(topics={"c1": frozenset({"t0"})})
    with pytest.raises(ConfigurationError, match="virtual_nodes is -1"):
        find_strategy("ring", {"virtual_nodes": -1})
