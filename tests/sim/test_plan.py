import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.sim.kinds.table import KINDS, draw, kind_of
from steelyard.sim.plan import FaultKind, Plan, parts, tell, without

SEEDS = range(160)


def test_the_same_seed_draws_the_same_plan() -> None:
    assert [draw(seed) for seed in SEEDS] == [draw(seed) for seed in SEEDS]


@pytest.mark.process
def test_a_seed_draws_the_same_plan_in_every_process() -> None:
    code = "from steelyard.sim.kinds.table import draw; print([draw(seed) for seed in range(32)])"

    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        ).stdout.decode()

    assert printed("0") == printed("1") == f"{[draw(seed) for seed in range(32)]}\n"


def test_seeds_go_round_the_kinds() -> None:
    assert {kind_of(seed) for seed in range(len(KINDS))} == set(KINDS)
    assert draw(3, "storm").kind == "storm"


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="churn"):
        draw(1, "weather")


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_fits_together(kind: str) -> None:
    for seed in SEEDS:
        check(draw(seed, kind))


def check(plan: Plan) -> None:
    brokers = {broker.name for broker in plan.brokers}
    topics = {topic.name for topic in plan.topics}
    groups = {group.name for group in plan.groups}
    servers = {f"ns{number + 1}" for number in range(plan.name_servers)}
    clients = {member.name for member in plan.members} | {producer.name for producer in plan.producers}
    programs = brokers | servers | clients
    assert all(set(topic.brokers) <= brokers for topic in plan.topics)
    assert all(set(group.topics) <= topics for group in plan.groups)
    assert all(producer.topic in topics for producer in plan.producers)
    assert {member.group for member in plan.members} == groups
    assert len(set(parts(plan))) == len(list(parts(plan)))
    for fault in plan.faults:
        if fault.kind is FaultKind.QUEUES:
            assert fault.target in topics
            assert fault.other in brokers
        else:
            assert fault.target in programs
            assert fault.other in programs | {""}
        assert fault.at_ms + fault.for_ms < plan.calm_ms
    for member in plan.members:
        assert member.leaves_ms is None or member.joins_ms < member.leaves_ms < plan.calm_ms
    assert len(tell(plan)) > len(plan.members) + len(plan.faults)


@given(st.sampled_from(SEEDS), st.data())
def test_parts_can_be_taken_away_in_any_order(seed: int, draws: st.DataObject) -> None:
    plan = draw(seed)
    gone = draws.draw(st.lists(st.sampled_from(list(parts(plan))), unique=True))
    left = without(plan, gone)
    assert left == without(plan, gone[::-1])
    assert set(parts(left)).isdisjoint(gone)
    assert all(fault.target not in gone and fault.other not in gone for fault in left.faults)


def test_the_number_of_messages_can_be_limited() -> None:
    plan = draw(0)
    assert all(producer.messages <= 5 for producer in without(plan, ["n20", "n5"]).producers)
    assert without(plan, ["n100000"]) == plan


@pytest.mark.parametrize("name", ["f99", "n", "nx", "", "b1"])
def test_a_part_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no part"):
        without(draw(0), [name])
