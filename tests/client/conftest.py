"""The cluster that producers are tested on while it is in trouble, and proxies before it that make the trouble.

A module that needs another cluster has a fixture of the same name.
"""

import secrets
from collections.abc import Iterator
from fractions import Fraction

import pytest

from steelyard import Admin
from steelyard.serve.embedded import Cluster
from tests.client.proxy import Detour, detour
from tests.client.sending_scene import scene


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run two brokers, each with four queues of ``orders``."""
    with scene(2) as running:
        yield running


@pytest.fixture
def around(cluster: Cluster) -> Iterator[Detour]:
    """Put proxies before the cluster."""
    with detour(cluster) as proxies:
        yield proxies


@pytest.fixture
def quick_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a send wait a twentieth of its time in vain, and not two thirds, while there is another broker to try.

    So that a healthy broker has many seconds on a busy machine, and still no test waits for long.
    """
    monkeypatch.setattr("steelyard.balance.producer.send_attempts._RESERVED_TIME_DIVISOR", Fraction(20, 19))


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Make a topic that no other test knows."""
    name = f"topic-{secrets.token_hex(6)}"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(name, 2)
    return name
