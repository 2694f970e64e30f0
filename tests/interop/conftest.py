"""What the interop tests share: they run when asked for by name, with one Java process for each release."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.backends import Cluster, chosen, running_cluster
from tests.interop.clients import JavaProcess, running_client
from tests.interop.jars import RELEASE_4, RELEASE_5, RELEASES, SERVER_RELEASES, NotReady, server_class_path
from tests.interop.java_clients import JavaClients
from tests.interop.mqadmin import Mqadmin
from tests.interop.peer import Peer, running
from tests.interop.wire_client import create_topic

_HERE = Path(__file__).parent
_numbers = itertools.count(1)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out unless it, or something in it, was asked for: it needs Java and Maven."""
    asked = ((config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(_HERE) for path in asked) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out pairs of Apache's that do not get along: the newer client or the older tools with other servers."""
    odd = [item for item in items if _is_odd_pair(item)]
    items[:] = [item for item in items if item not in odd]
    config.hook.pytest_deselected(items=odd)


def _is_odd_pair(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    pair = item.callspec.params.get("cluster"), item.callspec.params.get("hands")
    return pair == ("apache-4.9.7", RELEASE_5) or (
        pair == ("apache-5.5.0", RELEASE_4) and "mqadmin" in item.fixturenames
    )


@pytest.fixture(scope="session")
def peers() -> Iterator[dict[str, Peer]]:
    """Start a Java process for each release, and end them when all tests are done."""
    with ExitStack() as processes:
        yield {release: processes.enter_context(running(release)) for release in RELEASES}


@pytest.fixture(scope="session", params=RELEASES)
def java(request: pytest.FixtureRequest, peers: dict[str, Peer]) -> Peer:
    """Give the process of one release; a test that takes it runs with each of them."""
    return peers[request.param]


@pytest.fixture(scope="session")
def java_5(peers: dict[str, Peer]) -> Peer:
    """Give the process of the newer release, for what the older one does not have."""
    return peers[RELEASE_5]


@pytest.fixture(params=SERVER_RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Name a release of Apache's servers; a test that takes it runs with each of them."""
    try:
        server_class_path(request.param)
    except NotReady as problem:
        pytest.skip(str(problem))
    return str(request.param)


@pytest.fixture(scope="session", params=chosen())
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run the servers of one backend; a test that takes it runs with each of them."""
    try:
        with running_cluster(request.param, tmp_path_factory.mktemp("cluster") / "store") as running:
            yield running
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def client_processes() -> Iterator[dict[str, JavaProcess]]:
    """Start a Java process with Apache's client and tools of each release, and end them when all tests are done."""
    try:
        with ExitStack() as processes:
            yield {release: processes.enter_context(running_client(release, quick=True)) for release in RELEASES}
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture(params=RELEASES)
def hands(
    request: pytest.FixtureRequest, client_processes: dict[str, JavaProcess], cluster: Cluster
) -> Iterator[JavaClients]:
    """Give the producers and consumers of one Java release; a test that takes it runs with each of them."""
    hands = JavaClients(client_processes[request.param], cluster)
    yield hands
    hands.stop()


@pytest.fixture
def mqadmin(hands: JavaClients) -> Mqadmin:
    """Give the administrator's tool of the same release."""
    return Mqadmin(hands.process, hands.cluster)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Make a topic of four queues that no other test knows."""
    name = f"topic-{next(_numbers)}"
    with cluster.connection() as connection:
        create_topic(connection, name, 4)
    cluster.wait_for_route(name)
    return name


@pytest.fixture
def group() -> str:
    """Name a group that no other test knows."""
    return f"group-{next(_numbers)}"
