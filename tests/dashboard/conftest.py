"""A cluster with a page, for tests that need no browser."""

from collections.abc import Iterator

import pytest

from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.serve.embedded import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run one name server and two brokers, in memory."""
    with Cluster(brokers=2) as running:
        yield running


@pytest.fixture
def page(cluster: Cluster) -> Iterator[Page]:
    """Run the page of that cluster."""
    with Page(cluster.namesrv, PageOptions(port=0)) as running:
        yield running
