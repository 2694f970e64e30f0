"""What tests of the command line share: a cluster of two brokers, for all tests of a file."""

from collections.abc import Iterator

import pytest

from steelyard.serve.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return a running cluster; each test uses topics and groups of its own."""
    with Cluster(brokers=2) as running:
        yield running
