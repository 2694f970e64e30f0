"""What tests of the command line share: a cluster of two brokers, for all tests of a file."""

from collections.abc import Iterator

import pytest

from steelyard.serve.embedded import Cluster
from tests.cli.runner import RunCommand, run_command_at


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return a running cluster; each test uses topics and groups of its own."""
    with Cluster(brokers=2) as running:
        yield running


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Return a function that runs commands in this process."""
    return run_command_at(cluster.namesrv, capsys)
