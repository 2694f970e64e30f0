"""A cluster with a page, for tests that need no browser."""

from collections.abc import Iterator

import pytest

from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run one name server and two brokers, in memory."""
    with Cluster(brokers=2) as running:
        yield running


@pytest.fixture
def dashboard(cluster: Cluster) -> Iterator[Dashboard]:
    """Run the page of that cluster."""
    with Dashboard(cluster.namesrv, DashboardOptions(port=0)) as running:
        yield running
