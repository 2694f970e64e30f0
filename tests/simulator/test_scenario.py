import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.generators import SCENARIO_KINDS, draw_scenario, kind_of_seed
from simulator.scenario import FaultKind, Scenario, describe, part_names, without_parts
from steelyard.errors import ConfigurationError

SEEDS = range(160)


def test_the_same_seed_draws_the_same_scenario() -> None:
    assert [draw_scenario(seed) for seed in SEEDS] == [draw_scenario(seed) for seed in SEEDS]


@pytest.mark.process
def test_a_seed_draws_the_same_scenario_in_every_process() -> None:
    code = "from simulator.generators import draw_scenario; print([draw_scenario(seed) for seed in range(32)])"

    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        ).stdout.decode()

    assert printed("0") == printed("1") == f"{[draw_scenario(seed) for seed in range(32)]}\n"


def test_seeds_go_round_the_kinds() -> None:
    assert {kind_of_seed(seed) for seed in range(len(SCENARIO_KINDS))} == set(SCENARIO_KINDS)
    assert draw_scenario(3, "storm").kind == "storm"


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="churn"):
        draw_scenario(1, "weather")


@pytest.mark.parametrize("kind", SCENARIO_KINDS)
def test_a_scenario_is_consistent(kind: str) -> None:
    for seed in SEEDS:
        check(draw_scenario(seed, kind))


def check(scenario: Scenario) -> None:
    brokers = {broker.name for broker in scenario.brokers}
    topics = {topic.name for topic in scenario.topics}
    groups = {group.name for group in scenario.groups}
    servers = {f"ns{number + 1}" for number in range(scenario.name_servers)}
    clients = {member.name for member in scenario.members} | {producer.name for producer in scenario.producers}
    programs = brokers | servers | clients
    assert all(set(topic.brokers) <= brokers for topic in scenario.topics)
    assert all(set(group.topics) <= topics for group in scenario.groups)
    assert all(producer.topic in topics for producer in scenario.producers)
    assert {member.group for member in scenario.members} == groups
    assert len(set(part_names(scenario))) == len(list(part_names(scenario)))
    for fault in scenario.faults:
        if fault.kind is FaultKind.QUEUES:
            assert fault.target in topics
            assert fault.other in brokers
        else:
            assert fault.target in programs
            assert fault.other in programs | {""}
        assert fault.at_ms + fault.for_ms < scenario.heals_ms
    for member in scenario.members:
        assert member.leaves_ms is None or member.joins_ms < member.leaves_ms < scenario.heals_ms
    assert len(describe(scenario)) > len(scenario.members) + len(scenario.faults)


@given(st.sampled_from(SEEDS), st.data())
def test_parts_can_be_removed_in_any_order(seed: int, draws: st.DataObject) -> None:
    scenario = draw_scenario(seed)
    gone = draws.draw(st.lists(st.sampled_from(list(part_names(scenario))), unique=True))
    left = without_parts(scenario, gone)
    assert left == without_parts(scenario, gone[::-1])
    assert set(part_names(left)).isdisjoint(gone)
    assert all(fault.target not in gone and fault.other not in gone for fault in left.faults)


def test_the_number_of_messages_can_be_limited() -> None:
    scenario = draw_scenario(0)
    assert all(producer.messages <= 5 for producer in without_parts(scenario, ["n20", "n5"]).producers)
    assert without_parts(scenario, ["n100000"]) == scenario


@pytest.mark.parametrize("name", ["f99", "n", "nx", "", "b1"])
def test_a_part_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no part"):
        without_parts(draw_scenario(0), [name])
