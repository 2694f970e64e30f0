"""Producers walk around trouble: our brokers as processes, killed, halted and slowed while messages flow.

The stories are in trouble.py; tests/interop tells them again on Apache's brokers, at their full length.
"""

from collections.abc import Iterator

import pytest

from steelyard.balance.producer.broker_latency import LatencyTable
from tests.client import broker_trouble
from tests.client.broker_trouble import TrialTimings
from tests.client.process_cluster import Ground, our_ground

QUICK = LatencyTable("quick", steps_ms=(0, 550), avoid_for_ms=(0, 600), failure_ms=550)
# All but a twentieth of each timeout is left for a healthy broker, which may share a busy machine with everything else.
PACE = TrialTimings(timeout_s=20.0, table=QUICK, flow=2, slow_ms=600)

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("broker trouble")]  # the ground is started once


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Run two brokers and two name servers."""
    with our_ground(tmp_path_factory.mktemp("ground")) as running:
        yield running


def test_a_broker_that_is_killed_is_avoided_and_used_again(ground: Ground) -> None:
    broker_trouble.a_broker_is_killed(ground, PACE, "broker-b")


@pytest.mark.usefixtures("quick_failover")
def test_a_broker_that_is_halted_is_avoided_and_used_again(ground: Ground) -> None:
    broker_trouble.a_broker_is_halted(ground, PACE, "broker-a")


def test_a_slow_broker_is_avoided_and_where_all_are_slow_sends_go_on(ground: Ground) -> None:
    broker_trouble.brokers_are_slow(ground, PACE, "broker-b")


def test_a_lost_name_server_is_not_noticed(ground: Ground) -> None:
    broker_trouble.a_name_server_is_lost(ground, PACE)
