"""Apache's own integration tests, as published with 4.9.7, on two brokers of ours.

They run one after the other in one Java. Some of them count on how fast things are: what failed is run again alone.
Left out are those that start servers of their own, and the two whose producers speak TLS, which our servers do not.
"""

import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from steelyard.serve.embedded import Cluster
from tests.interop.jars import NotReady, integration_class_path

pytestmark = pytest.mark.timeout(3600)

_LEFT_OUT = ("BaseBroadCastIT", "DLedgerProduceAndConsumeIT", "TLS_IT", "TLS_Mix_IT")
_COUNT = 106
"""How many there are: fewer would mean that they were not found."""


@pytest.fixture(scope="module")
def class_path() -> str:
    """Return where the tests are."""
    try:
        return integration_class_path()
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run two brokers."""
    with Cluster(brokers=2, data=tmp_path_factory.mktemp("data")) as running:
        yield running


def _names(class_path: str) -> list[str]:
    jars = Path(class_path.rpartition(":")[2]).parent
    (tests,) = jars.glob("rocketmq-test-*-tests.jar")
    with zipfile.ZipFile(tests) as opened:
        names = [
            each.removesuffix(".class").replace("/", ".") for each in opened.namelist() if each.endswith("IT.class")
        ]
    return sorted(name for name in names if name.rpartition(".")[2] not in _LEFT_OUT)


def _run(class_path: str, cluster: Cluster, names: Iterable[str], home: Path) -> dict[str, str]:
    """Run test classes, and return each test with why it failed, nothing if it passed."""
    first, second = cluster.brokers
    settings = {"name.server": cluster.namesrv, "broker.1": first, "broker.2": second, "cluster": "DefaultCluster"}
    options = [f"-D{name}={value}" for name, value in {**settings, "user.home": home}.items()]
    command = ["java", "-cp", class_path, *options, "Integration", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=home)
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        outcome, _, rest = line.partition(" ")
        if outcome in ("passed", "failed"):
            name, _, why = rest.partition(" ")
            found[name] = why
    return found


def test_they_pass(class_path: str, cluster: Cluster, tmp_path: Path) -> None:
    names = _names(class_path)
    found = _run(class_path, cluster, names, tmp_path)
    failed = {name: why for name, why in found.items() if why}
    print(f"{len(found) - len(failed)} of {len(found)} passed; run again alone: {failed}")
    assert len(found) == _COUNT
    for name in {each.partition("(")[2].rstrip(")") for each in failed}:
        again = _run(class_path, cluster, [name], tmp_path)
        failed = {each: why for each, why in (failed | again).items() if why}
    assert failed == {}
