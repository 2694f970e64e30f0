"""What the live tests share: one cluster for all of them, and topics and groups that no other test knows."""

import secrets
from collections.abc import Iterator

import pytest

from steelyard import Admin, Producer
from tests.interop.jars import NotReady
from tests.live.clusters import EMBEDDED, Live, chosen, running, with_own_clock

_APACHE_S = 180
"""How long a test may take where the servers are Java's: their times are longer."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests more time on Apache's servers."""
    if chosen() != EMBEDDED:
        for item in items:
            if "live" in item.path.parts and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_APACHE_S))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Run the cluster."""
    try:
        with running(chosen(), tmp_path_factory.mktemp("live")) as live:
            yield live
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture
def own_clock(cluster: Live) -> Iterator[Live]:
    """Run a cluster for this test alone, with a clock that it may put forward, unless the servers are Apache's."""
    with with_own_clock(cluster) as own:
        yield own


@pytest.fixture
def admin(cluster: Live) -> Iterator[Admin]:
    """Give an administrator's client."""
    with Admin(cluster.namesrv) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    """Make a topic of eight queues, four on each broker."""
    name = f"topic-{secrets.token_hex(6)}"
    admin.topics.create(name, 4)
    return name


@pytest.fixture
def group() -> str:
    """Name a group."""
    return f"group-{secrets.token_hex(6)}"


@pytest.fixture
def producer(cluster: Live, group: str) -> Iterator[Producer]:
    """Give a producer."""
    with Producer(cluster.namesrv, group=f"of-{group}") as producer:
        yield producer
