"""What tests of the command line share: a cluster of two brokers, for all tests of a file."""

from collections.abc import Iterator

import pytest
from tests.cli.desk import Desk, desk_at

from steelyard.serve.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return a running cluster; each test uses topics and groups of its own."""
    with Cluster(brokers=2) as running:
        yield running


@pytest.fixture
def desk(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Desk:
    """Return a desk at which verbs are typed, in this process."""
    return desk_at(cluster.namesrv, capsys)
