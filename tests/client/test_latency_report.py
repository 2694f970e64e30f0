"""A producer reports broker latencies to brokers: soon after they change, and seldom otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

import pytest

from steelyard.balance.producer.broker_latency import LatencyTable
from steelyard.client.admin.producers import ProducerBrokerLatency
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.wire.codes import RequestCode
from tests.client.proxy import Detour
from tests.client.send_paths import Way, both_ways
from tests.latency_clock import Advance
from tests.waiting import until

ORDER = Message("orders", b"x")
TABLE = LatencyTable("ten minutes", steps_ms=(0, 600), avoid_for_ms=(0, 600_000), failure_ms=600)
RAMP_MS = 5_000


LatencyQuery = Callable[[], dict[str, ProducerBrokerLatency]]


@contextmanager
def latency_of(group: str, namesrv: str) -> Iterator[LatencyQuery]:
    """Give what looks at the latency table of the only producer of a group; nothing while it told nothing."""

    def collect() -> dict[str, ProducerBrokerLatency]:
        for line in admin.producers.list():
            if line.group == group and line.latencies is not None:
                assert line.reported_at is not None
                return {row.broker: row for row in line.latencies}
        return {}

    with Admin(namesrv) as admin:
        yield collect


@both_ways
def test_a_broker_that_begins_and_ends_to_be_avoided_is_reported(around: Detour, way: Way, advance: Advance) -> None:
    with (
        latency_of("shop", around.namesrv) as collect,
        Producer(around.namesrv, group="shop", avoid_slow_brokers=True, latency_table=TABLE, timeout_s=30) as producer,
    ):
        for _ in range(16):
            way(producer)(ORDER)
        until(lambda: collect().keys() == {"broker-0", "broker-1"})
        assert [(row.share, row.why, row.avoided_ms, row.failures) for row in collect().values()] == [
            (1.0, "", None, 0),
            (1.0, "", None, 0),
        ]
        around.brokers["broker-1"].on_send = lambda: advance(700)
        until(lambda: way(producer)(ORDER).queue.broker == "broker-1")
        around.brokers["broker-1"].on_send = None
        until(lambda: collect()["broker-1"].share == 0)
        avoided = collect()["broker-1"]
        assert (avoided.why[:8], avoided.latency_ms) == ("it took ", 700)
        advance(TABLE.avoid_for_ms[-1])
        until(lambda: collect()["broker-1"].share > 0)
        advance(RAMP_MS)
        until(lambda: collect()["broker-1"].share == 1)


@pytest.mark.usefixtures("advance")
def test_a_failure_is_reported_with_its_number(around: Detour) -> None:
    with (
        latency_of("failing", around.namesrv) as collect,
        Producer(around.namesrv, group="failing", avoid_slow_brokers=True, latency_table=TABLE) as producer,
    ):
        for _ in range(16):
            producer.send(ORDER)
        until(lambda: collect().keys() == {"broker-0", "broker-1"})
        around.brokers["broker-1"].cuts_after_sends = 1
        until(lambda: bool(producer.send(ORDER).attempts))
        until(lambda: collect()["broker-1"].failures == 1)
        assert collect()["broker-1"].why == "it failed"


def test_a_producer_without_a_latency_report_tells_none(around: Detour) -> None:
    with Producer(around.namesrv, group="plain") as producer, Admin(around.namesrv) as admin:
        producer.send(ORDER)
        (line,) = admin.producers.of_group("plain")
        assert (line.latencies, line.reported_at) == (None, None)


def test_where_all_is_well_hardly_more_is_said_than_before(
    around: Detour, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.client.session._HEARTBEAT_S", 600)  # however long all this takes
    monkeypatch.setattr("steelyard.client.producer.latency_report._MIN_INTERVAL_S", 0)
    latencies_ms = cycle((1, 2, 3, 2))  # they change, but not so that a broker is avoided
    for proxy in around.brokers.values():
        proxy.on_send = lambda: advance(next(latencies_ms))
    with (
        latency_of("calm", around.namesrv) as collect,
        Producer(around.namesrv, group="calm", avoid_slow_brokers=True) as producer,
    ):
        for _ in range(16):
            producer.send(ORDER)
        until(lambda: collect().keys() == {"broker-0", "broker-1"})
        for _ in range(400):
            producer.send(ORDER)
        beats = [len(proxy.requests(RequestCode.HEART_BEAT)) for proxy in around.brokers.values()]
    # One as the connection opens, one or two as brokers become known.
    assert max(beats) <= 3
