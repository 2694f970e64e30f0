"""The same requests to Apache's servers and to ours: the answers are the same, or they differ on purpose.

Towards 5.5.0 every part of every answer is compared. Of 4.9.7 it is asked that whatever its answers say, ours say too,
so that its clients and tools miss nothing; where the two releases differ in code, ours is that of 5.5.0.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from steelyard.broker.broker import HANDLERS as BROKER_HANDLERS
from steelyard.nameserver.name_server import HANDLERS as NAME_SERVER_HANDLERS
from tests.interop.backends import OURS
from tests.interop.jars import NotReady
from tests.interop.same.all_scripts import ALL_SCRIPTS
from tests.interop.same.answer_views import View
from tests.interop.same.clusters import quiet_cluster
from tests.interop.same.differences import Difference, all_differences, unexplained, unused
from tests.interop.same.intended import INTENDED, ONLY_IN_4
from tests.interop.same.script_runner import run_script
from tests.interop.same.steps import BROKER

Answers = Mapping[str, Mapping[str, View]]

pytestmark = pytest.mark.timeout(400)


def answers_of(backend: str, root: Path) -> Answers:
    try:
        with quiet_cluster(backend, root) as cluster:
            return {script.name: run_script(script, cluster, in_4=cluster.is_4) for script in ALL_SCRIPTS}
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return answers_of(OURS, tmp_path_factory.mktemp("ours") / "store")


@pytest.fixture(scope="module")
def from_5(ours: Answers, tmp_path_factory: pytest.TempPathFactory) -> list[Difference]:
    return all_differences(answers_of("apache-5.5.0", tmp_path_factory.mktemp("five") / "store"), ours)


@pytest.fixture(scope="module")
def from_4(ours: Answers, tmp_path_factory: pytest.TempPathFactory) -> list[Difference]:
    return all_differences(answers_of("apache-4.9.7", tmp_path_factory.mktemp("four") / "store"), ours)


def test_every_request_that_is_served_is_asked() -> None:
    steps = [step for script in ALL_SCRIPTS for step in script.steps]
    asked = {step.code for step in steps if step.to == BROKER}
    assert sorted(set(BROKER_HANDLERS) - asked) == []
    assert sorted(set(NAME_SERVER_HANDLERS) - {step.code for step in steps if step.to != BROKER}) == []


def test_every_step_has_a_name_of_its_own() -> None:
    names = [(script.name, step.name) for script in ALL_SCRIPTS for step in script.steps]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def _listed(found: list[Difference]) -> str:
    return "\n".join(map(str, found))


@pytest.mark.parametrize("script", [script.name for script in ALL_SCRIPTS])
def test_answers_are_those_of_5_or_differ_on_purpose(script: str, from_5: list[Difference]) -> None:
    found = [each for each in from_5 if each.step.startswith(f"{script}/")]
    left = unexplained(found, INTENDED)
    assert not left, _listed(left)


def test_every_intended_difference_is_still_one(from_5: list[Difference]) -> None:
    assert unused(from_5, INTENDED) == []


def test_whatever_4_says_is_said_here_too(from_4: list[Difference]) -> None:
    missed = [each for each in from_4 if each.label.startswith(("-ext.", "-body."))]
    left = unexplained(missed, ONLY_IN_4)
    assert not left, _listed(left)
    assert unused(missed, ONLY_IN_4) == []
