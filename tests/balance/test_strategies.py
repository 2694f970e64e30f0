"""The rules that every strategy keeps, and the examples that people know them by."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.assignors import (
    Average,
    AverageByCircle,
    ByConfig,
    ConsistentHash,
    CustomStrategy,
    MachineRoom,
    MachineRoomNearby,
    Sticky,
    Strategy,
    plan,
    room_before_at,
)
from steelyard.errors import AllocationError, ConfigurationError
from steelyard.model import Queue
from tests.balance.evenness import queues_of


def _take_all(_group: str, _member: str, queues: object, _members: object) -> list[Queue]:
    assert isinstance(queues, list)
    return queues


_CHECKED: tuple[Strategy, ...] = (
    Average(),
    AverageByCircle(),
    MachineRoom(frozenset({"east"})),
    MachineRoomNearby(room_before_at),
    MachineRoomNearby(room_before_at, inner=Sticky()),
    ConsistentHash(),
    Sticky(),
    Sticky(weights={"east@1": 3}),
    CustomStrategy("all", _take_all),
)
_SHARES_EVERYTHING: tuple[Strategy, ...] = tuple(
    strategy for strategy in _CHECKED if not isinstance(strategy, MachineRoom | CustomStrategy)
)

_rooms = st.sampled_from(["east", "west", "north"])
_members = st.lists(st.builds("{}@{}".format, _rooms, st.integers(0, 30)), min_size=1, max_size=8, unique=True)
_queues = st.lists(
    st.builds(Queue, st.sampled_from(["a", "b"]), st.builds("{}@x".format, _rooms), st.integers(0, 12)),
    min_size=1,
    max_size=40,
    unique=True,
)


@pytest.mark.parametrize("strategy", _CHECKED, ids=lambda strategy: strategy.name)
def test_an_empty_id_no_queues_and_no_members_are_errors(strategy: Strategy) -> None:
    queues = queues_of(4, broker="east@x")
    for member, listed, members in (("", queues, ["east@1"]), ("east@1", [], ["east@1"]), ("east@1", queues, [])):
        with pytest.raises(AllocationError, match="billing"):
            strategy("billing", member, listed, members)
    for listed, members in (([], ["east@1"]), (queues, []), (queues, ["", "east@1"])):
        with pytest.raises(AllocationError):
            plan(strategy, "billing", listed, members)


@pytest.mark.parametrize("strategy", _CHECKED, ids=lambda strategy: strategy.name)
def test_a_member_that_is_not_listed_gets_nothing(strategy: Strategy) -> None:
    assert strategy("billing", "east@9", queues_of(4, broker="east@x"), ["east@1", "east@2"]) == []


@pytest.mark.parametrize("strategy", _SHARES_EVERYTHING, ids=lambda strategy: strategy.name)
@given(queues=_queues, members=_members)
def test_each_queue_has_one_owner(strategy: Strategy, queues: list[Queue], members: list[str]) -> None:
    shared = plan(strategy, "billing", queues, members)
    assert shared.keys() == set(members)
    assert Counter(queue for mine in shared.values() for queue in mine) == Counter(queues)


@pytest.mark.parametrize("strategy", _CHECKED, ids=lambda strategy: strategy.name)
@given(queues=_queues, members=_members, chance=st.randoms(use_true_random=False))
def test_any_order_gives_the_same_plan(
    strategy: Strategy, queues: list[Queue], members: list[str], chance: Random
) -> None:
    first = plan(strategy, "billing", queues, members)
    chance.shuffle(queues)
    chance.shuffle(members)
    assert plan(strategy, "billing", [*queues, *queues], members) == first


@pytest.mark.parametrize(
    ("queues", "members", "pages"),
    [
        (16, 1, [range(16)]),
        (16, 2, [range(8), range(8, 16)]),
        (16, 3, [range(6), range(6, 11), range(11, 16)]),
        (4, 2, [range(2), range(2, 4)]),
        (7, 2, [range(4), range(4, 7)]),
        (2, 4, [range(1), range(1, 2), range(0), range(0)]),
    ],
)
def test_average_gives_contiguous_pages(queues: int, members: int, pages: list[range]) -> None:
    shared = plan(Average(), "billing", queues_of(queues), [f"c{number}" for number in range(members)])
    assert [[queue.queue_id for queue in mine] for mine in shared.values()] == [list(page) for page in pages]


@given(queues=_queues, members=_members)
def test_circle_gives_queue_j_to_member_j_mod_n(queues: list[Queue], members: list[str]) -> None:
    shared = plan(AverageByCircle(), "billing", queues, members)
    for place, queue in enumerate(sorted(queues)):
        assert queue in shared[sorted(members)[place % len(members)]]


def test_config_gives_each_member_its_list_and_the_rest_the_common_one() -> None:
    common, own = queues_of(2), queues_of(0, 3)
    shared = plan(ByConfig(common, {"c2": own}), "billing", [], ["c1", "c2", "c3"])
    assert shared == {"c1": common, "c2": own, "c3": common}


def test_machine_room_leaves_the_queues_of_other_machine_rooms_unassigned() -> None:
    queues = [Queue("t", broker, number) for broker in ("east@a", "west@b") for number in range(3)]
    shared = plan(MachineRoom(frozenset({"west"})), "billing", queues, ["c1", "c2"])
    assert [[str(queue) for queue in mine] for mine in shared.values()] == [
        ["t@west@b:0", "t@west@b:2"],
        ["t@west@b:1"],
    ]


def test_nearby_keeps_queues_in_their_room_and_shares_those_of_empty_rooms() -> None:
    queues = [Queue("t", f"{room}@a", number) for room in ("east", "north", "west") for number in range(2)]
    shared = plan(MachineRoomNearby(room_before_at), "billing", queues, ["east@1", "west@1"])
    assert [" ".join(f"{q.broker[0]}{q.queue_id}" for q in mine) for mine in shared.values()] == [
        "e0 e1 n0",
        "w0 w1 n1",
    ]


@pytest.mark.parametrize("room", ["", None])
def test_a_broker_or_a_member_without_a_machine_room_is_an_error(room: str | None) -> None:
    queues = queues_of(2)
    for nearby in (
        MachineRoomNearby(lambda _: room, lambda _: "east"),
        MachineRoomNearby(lambda _: "east", lambda _: room),
    ):
        with pytest.raises(AllocationError, match="no known room"):
            plan(nearby, "billing", queues, ["c1"])
        with pytest.raises(AllocationError, match="no known room"):
            nearby("billing", "c1", queues, ["c1"])


def test_nearby_hands_what_was_owned_before_to_a_sticky_inner_strategy() -> None:
    queues = queues_of(4, broker="east@x")
    before = {"east@1": queues[1::2], "east@2": queues[::2]}
    strategy = MachineRoomNearby(room_before_at, inner=Sticky())
    assert plan(strategy, "billing", queues, list(before), previous=before) == before
    assert plan(MachineRoomNearby(room_before_at), "billing", queues, list(before), previous=before) != before


def test_a_ring_takes_any_number_of_nodes_and_any_hash_but_no_negative_number() -> None:
    queues, members = queues_of(8), ["c1", "c2"]
    assert plan(ConsistentHash(0), "billing", queues, members) == {"c1": [], "c2": []}
    assert plan(ConsistentHash(1, len), "billing", queues, members) == {"c1": [], "c2": queues}
    with pytest.raises(ConfigurationError, match="virtual_nodes is -1"):
        ConsistentHash(-1)


@given(queues=_queues, members=st.lists(st.sampled_from(["c1", "c2", "c3"]), min_size=2, max_size=6))
def test_an_id_listed_twice_takes_the_part_of_its_first_place(queues: list[Queue], members: list[str]) -> None:
    listed, ids = sorted(queues), sorted(members)
    told_apart = [f"{member}/{place}" for place, member in enumerate(ids)]
    apart = plan(Average(), "billing", listed, told_apart)
    shared = plan(Average(), "billing", listed, ids)
    assert shared == {member: apart[told_apart[ids.index(member)]] for member in ids}
