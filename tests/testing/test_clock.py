"""A cluster's clock is put forward: what waits falls due, and nobody who is connected grows older by it."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard import Message, Producer, StoredMessage
from steelyard.errors import ConfigurationError
from steelyard.testing import Mq, cluster
from tests.testing.billing import billing
from tests.testing.foreign_client import ForeignClient


def _bodies(mq: Mq) -> list[bytes]:
    return [message.body for message in mq.sent("orders")]


def test_a_delayed_message_is_there_when_advance_returns() -> None:
    with cluster(brokers=2) as mq:
        mq.send("orders", b"by level", delay_s=1800)
        mq.send("orders", b"by time", delay_s=1799)
        mq.send("orders", b"at a moment", deliver_at=datetime.now(UTC) + timedelta(minutes=25))
        assert [waits.topic for waits in mq.waiting("orders")] == ["orders"] * 3
        mq.clock.advance(minutes=24)
        assert _bodies(mq) == []
        mq.clock.advance(minutes=6)
        assert sorted(_bodies(mq)) == [b"at a moment", b"by level", b"by time"]
        assert mq.waiting("orders") == []


def test_more_messages_than_a_broker_delivers_at_a_time_are_all_there() -> None:
    with cluster() as mq:
        with Producer(mq.address) as producer:
            flights = [producer.submit(Message("orders", b"x"), delay_s=60) for _ in range(5_000)]
            assert all(flight.result() for flight in flights)
        mq.clock.advance(seconds=61)
        assert len(mq.sent("orders")) == 5_000


def test_a_delay_counts_from_the_clusters_own_time() -> None:
    with cluster() as mq:
        mq.clock.advance(timedelta(days=1))
        mq.send("orders", b"1", delay_s=60)
        assert _bodies(mq) == []
        assert mq.clock.now() - datetime.now(UTC) > timedelta(hours=23)
        mq.clock.advance(60)
        assert _bodies(mq) == [b"1"]


def test_members_and_producers_survive_any_leap() -> None:
    with cluster() as mq, Producer(mq.address, group="shop") as producer, billing(mq) as billed:
        producer.send(Message("orders", b"1"))
        mq.wait_until_handled("orders", group="billing")
        before = mq.explain("orders", group="billing")
        for _ in range(20):
            mq.clock.advance(seconds=4)
        mq.clock.advance(days=2)
        assert mq.explain("orders", group="billing").splitlines()[-1] == before.splitlines()[-1]
        assert mq.faults.cut_connections(group="nobody") == 0
        producer.send(Message("orders", b"2"))
        assert mq.wait_until_handled("orders", group="billing", count=2) == 2
        assert billed == [b"1", b"2"]


def test_a_foreign_connection_stays_open_and_its_lock_is_kept() -> None:
    lock = (
        b'{"consumerGroup":"billing","clientId":"%s","mqSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}]}'
    )
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as one, ForeignClient(mq.brokers["broker-0"]) as other:
        assert one.send("orders", b"1")["code"] == 0
        assert one.heartbeat("ruby-1", "billing", "orders") == 0
        assert other.heartbeat("ruby-2", "billing", "orders") == 0
        assert b"queueId" in one.ask(41, {}, lock % b"ruby-1")[1]
        mq.clock.advance(hours=1)
        assert b"queueId" not in other.ask(41, {}, lock % b"ruby-2")[1]
        assert b"queueId" in one.ask(41, {}, lock % b"ruby-1")[1]


def test_an_open_transaction_is_asked_about() -> None:
    with cluster() as mq:
        asked: list[str] = []

        def check(message: StoredMessage) -> bool:
            asked.append(message.topic)
            return True

        with Producer(mq.address, group="shop") as dies_in_between:
            dies_in_between.transaction(Message("orders", b"1")).begin()
        with Producer(mq.address, group="shop", check=check) as producer:
            producer.send(Message("audit", b"hello"))
            while "shop" not in {line.group for line in mq.admin.producers.list()}:
                pass  # it registers with brokers when it has met them
            mq.assert_nothing_sent("orders")
            mq.clock.advance(minutes=2)
            assert [message.body for message in mq.wait_until_sent("orders")] == [b"1"]
        assert asked == ["orders"]


def test_a_clock_does_not_go_back() -> None:
    with cluster() as mq, pytest.raises(ConfigurationError, match="cannot be set back"):
        mq.clock.advance(-1)


def test_time_goes_on_for_a_broker_that_was_killed() -> None:
    with cluster() as mq:
        mq.send("orders", b"1", delay_s=60)
        with mq.faults.kill_broker("broker-0"):
            mq.clock.advance(minutes=2)
        assert mq.wait_until_sent("orders")[0].body == b"1"


@pytest.mark.parametrize(
    "leap", [{"minutes": -1.0}, {"days": 1e12}, {"seconds": float("nan")}, {"days": 4e6}, {"seconds": float("inf")}]
)
def test_a_leap_that_no_clock_makes_is_refused(leap: dict[str, float]) -> None:
    with cluster() as mq:
        before = mq.clock.now()
        with pytest.raises(ConfigurationError, match=r"a clock cannot be (advanced|set back)"):
            mq.clock.advance(**leap)
        assert mq.clock.now() - before < timedelta(days=1)
