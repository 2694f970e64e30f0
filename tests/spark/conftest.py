"""What the tests of the data pipeline share: one cluster for all, and topics of their own.

The cluster has two brokers, ours in this process, or Apache's if `STEELYARD_LIVE` says so (tests/live/clusters.py).
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard import Admin
from tests.interop.jars import NotReady
from tests.live.clusters import Live, chosen, running

_LONGEST_S = 180
"""A test may be the one that starts Spark, and Apache's servers; others' machines are slower, and busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests more time than others have."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LONGEST_S))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Run the cluster."""
    try:
        with running(chosen(), tmp_path_factory.mktemp("live")) as live:
            yield live
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture
def topic(cluster: Live) -> str:
    """Make a topic of eight queues, four on each broker."""
    name = f"topic-{secrets.token_hex(6)}"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(name, 4)
    return name
