"""Every strategy that Java has gives what Java gives, queue by queue."""

import json
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from steelyard.balance.assignors import (
    Average,
    AverageByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
    plan,
    room_before_at,
)
from steelyard.errors import AllocationError
from steelyard.model import Queue, java_hash, sort_names, sort_queues
from tests.golden_allocation import golden_allocations

_GOLDEN = Path(__file__).parent.parent / "golden"


@cache
def _read(name: str) -> dict[str, list[dict[str, object]]]:
    return cast("dict[str, list[dict[str, object]]]", json.loads((_GOLDEN / name).read_text("utf-8")))


def _seven(key: str) -> int:
    """Return the hash with which the corner cases make points fall together; Java's remainder keeps the sign."""
    value = java_hash(key)
    return abs(value) % 7 * (1 if value >= 0 else -1)


def _queues(listed: object) -> list[Queue]:
    return [Queue(topic, broker, number) for topic, broker, number in cast("list[tuple[str, str, int]]", listed)]


_TYPICAL: dict[str, Strategy] = {
    "AVG": Average(),
    "AVG_BY_CIRCLE": AverageByCircle(),
    "CONSISTENT_HASH_10": ConsistentHash(),
    "CONSISTENT_HASH_100": ConsistentHash(100),
    "MACHINE_ROOM{room0,room1}": MachineRoom(frozenset({"room0", "room1"})),
    "MACHINE_ROOM_NEARBY-AVG": MachineRoomNearby(room_before_at),
}


@pytest.mark.parametrize("name", _TYPICAL)
def test_a_typical_group_is_shared_as_java_shares_it(name: str) -> None:
    strategy, cases = _TYPICAL[name], golden_allocations()
    assert len(cases) == 240
    for queues, members, shares in cases:
        wanted = {member: [queues[place] for place in mine] for member, mine in shares[name].items()}
        assert {member: strategy("g", member, queues, members) for member in members} == wanted
        assert plan(strategy, "g", reversed(queues), reversed(members)) == wanted


def _corner_strategies(queues: list[Queue]) -> dict[str, Strategy]:
    plain: dict[str, Strategy] = {
        "AVG": Average(),
        "AVG_BY_CIRCLE": AverageByCircle(),
        "CONFIG": ByConfig(queues[::2]),
        "MACHINE_ROOM": MachineRoom(frozenset({"room0", "room1", ""})),
        "CONSISTENT_HASH_0": ConsistentHash(0),
        "CONSISTENT_HASH_1": ConsistentHash(1),
        "CONSISTENT_HASH_10": ConsistentHash(),
        "CONSISTENT_HASH_3_SEVEN": ConsistentHash(3, _seven),
    }
    inner = ("AVG", "AVG_BY_CIRCLE", "CONFIG", "MACHINE_ROOM", "CONSISTENT_HASH_10")
    return plain | {f"NEARBY:{name}": MachineRoomNearby(room_before_at, inner=plain[name]) for name in inner}


_CORNERS = _read("allocation-corners.json")["cases"]


@pytest.mark.parametrize("case", _CORNERS, ids=[str(case["what"]) for case in _CORNERS])
def test_an_unusual_group_is_shared_as_java_shares_it(case: dict[str, object]) -> None:
    queues, members = _queues(case["queues"]), cast("list[str]", case["members"])
    strategies = _corner_strategies(queues)
    answers = cast("dict[str, dict[str, list[int] | str]]", case["alloc"])
    assert answers.keys() == strategies.keys()
    for name, by_member in answers.items():
        for member, mine in by_member.items():
            if mine == "error":
                with pytest.raises(AllocationError):
                    strategies[name]("g", member, queues, members)
            else:
                wanted = [queues[cast("int", place)] for place in mine]
                assert strategies[name]("g", member, queues, members) == wanted, (name, member)


@pytest.mark.parametrize("case", _CORNERS, ids=[str(case["what"]) for case in _CORNERS])
def test_a_whole_plan_is_what_each_member_gets_by_itself(case: dict[str, object]) -> None:
    queues, members = sort_queues(set(_queues(case["queues"]))), cast("list[str]", case["members"])
    for strategy in _corner_strategies(queues).values():
        try:
            one_by_one = {member: strategy("g", member, queues, members) for member in members}
        except AllocationError:
            with pytest.raises(AllocationError):
                plan(strategy, "g", queues, members)
            continue
        if queues and members:
            assert plan(strategy, "g", queues, members) == one_by_one


@pytest.mark.parametrize("case", _CORNERS, ids=[str(case["what"]) for case in _CORNERS])
def test_queues_and_members_are_sorted_as_java_sorts_them(case: dict[str, object]) -> None:
    queues, members = _queues(case["queues"]), cast("list[str]", case["members"])
    assert sort_queues(reversed(queues)) == queues
    assert sort_names(reversed(members)) == members


def test_the_worked_example_of_three_strategies() -> None:
    queues = [Queue("TopicTest", broker, number) for broker in ("broker-a", "broker-b") for number in range(4)]
    ids = ["192.168.0.1@100#1", "192.168.0.1@101#2", "192.168.0.2@100#3"]
    expected: dict[str, tuple[Strategy, list[str]]] = {
        "pages": (Average(), ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
        "cards": (AverageByCircle(), ["a0 a3 b2", "a1 b0 b3", "a2 b1"]),
        "ring": (ConsistentHash(), ["a0 b0", "a2 a3 b1 b2 b3", "a1"]),
    }
    for strategy, wanted in expected.values():
        shared = plan(strategy, "g", queues, ids)
        assert [" ".join(f"{q.broker[-1]}{q.queue_id}" for q in shared[member]) for member in ids] == wanted


def test_a_key_goes_to_the_queue_that_javas_hash_selector_picks() -> None:
    vectors = _read("allocation.json")["selectByHash"]
    assert len(vectors) == 70
    for vector in vectors:
        hashed = java_hash(str(vector["key"]))
        assert hashed == vector["hashCode"]
        # Java takes the remainder first and then its absolute value; its remainder has the sign of the hash.
        assert abs(hashed) % cast("int", vector["n"]) == vector["index"]
