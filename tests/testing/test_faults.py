"""Each fault does what it says, for our clients and for others, and is over when it is healed."""

import socket
import time

import pytest

from steelyard import Message, Producer
from steelyard.errors import ConfigurationError, SendFailed
from steelyard.testing import Mq, cluster
from tests.testing.billing import billing
from tests.testing.foreign_client import ForeignClient
from tests.waiting import until


def _bodies(mq: Mq) -> list[bytes]:
    return [message.body for message in mq.sent("orders")]


def test_a_slow_broker_answers_late_until_it_is_healed() -> None:
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        client.send("orders", b"0")
        with mq.faults.slow_broker("broker-0", ms=80):
            start_s = time.monotonic()
            client.send("orders", b"1")
            assert time.monotonic() - start_s >= 0.08
        mq.faults.slow_broker(ms=3_600_000)
        mq.faults.heal()
        client.send("orders", b"2")
        assert _bodies(mq) == [b"0", b"1", b"2"]


def test_a_slow_broker_is_slow_after_a_restart_too() -> None:
    with cluster() as mq:
        mq.faults.slow_broker("broker-0", ms=60)
        mq.faults.restart_broker("broker-0")
        with ForeignClient(mq.brokers["broker-0"]) as client:
            start_s = time.monotonic()
            client.send("orders", b"1")
            assert time.monotonic() - start_s >= 0.06
        mq.faults.heal()


def test_a_producer_avoids_a_broker_that_was_killed() -> None:
    with cluster(brokers=2) as mq, Producer(mq.address) as producer:
        mq.create_topic("orders", 2)
        with mq.faults.kill_broker("broker-0") as fault:
            for number in range(4):
                producer.send(Message("orders", b"%d" % number))
            assert len(mq.sent("orders")) == 4
            assert repr(fault) == "<broker-0 killed>"
        assert repr(fault) == "<broker-0 killed, healed>"
        with ForeignClient(mq.brokers["broker-0"]) as client:
            assert client.send("orders", b"back")["code"] == 0
        assert len(mq.sent("orders")) == 5


def test_an_ack_that_is_dropped_leaves_the_message_stored() -> None:
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        with mq.faults.drop_acks("broker-0", topic="orders", count=1) as lost:
            assert client.send("audit", b"other")["code"] == 0
            with ForeignClient(mq.brokers["broker-0"], timeout_s=0.2) as unheard:
                with pytest.raises(TimeoutError):
                    unheard.send("orders", b"1")
                until(lambda: lost.struck == 1, "the message is stored, however late")
            assert client.send("orders", b"2")["code"] == 0
            assert lost.struck == 1
        assert _bodies(mq) == [b"1", b"2"]


def test_our_producer_gives_up_where_an_ack_was_dropped_and_who_sends_again_has_it_twice() -> None:
    with cluster() as mq, Producer(mq.address) as producer:
        producer.send(Message("orders", b"0"))
        with mq.faults.drop_acks(count=1) as lost:
            with pytest.raises(SendFailed):
                producer.send(Message("orders", b"1"), timeout_s=0.3)
            until(lambda: lost.struck == 1, "the message is stored, however late")
        producer.send(Message("orders", b"1"))
        assert _bodies(mq) == [b"0", b"1", b"1"]


def test_a_share_strikes_every_so_many() -> None:
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        with mq.faults.refuse_sends(share=1 / 3) as refused:
            codes = [client.send("orders", b"%d" % number)["code"] for number in range(6)]
        assert codes == [0, 0, 2, 0, 0, 2]
        assert refused.struck == 2
        assert client.send("orders", b"6")["code"] == 0


def test_a_duplicate_is_stored_twice_and_answered_once() -> None:
    with cluster() as mq, Producer(mq.address) as producer, ForeignClient(mq.brokers["broker-0"]) as client:
        with mq.faults.duplicate(count=2) as doubled:
            sent = producer.send(Message("orders", b"1"))
            assert client.send("orders", b"2")["code"] == 0
        assert (sent.offset, doubled.struck) == (0, 2)
        assert _bodies(mq) == [b"1", b"1", b"2", b"2"]
        first, second, *_ = mq.sent("orders")
        assert first.message_id == second.message_id
        with billing(mq) as billed:
            mq.wait_until_handled("orders", group="billing", count=4)
        assert sorted(billed) == [b"1", b"1", b"2", b"2"]


def test_refused_sends_are_tried_at_the_other_broker() -> None:
    with cluster(brokers=2) as mq, Producer(mq.address) as producer:
        mq.create_topic("orders", 1)
        with mq.faults.refuse_sends("broker-0"):
            for _ in range(4):
                assert producer.send(Message("orders", b"1")).queue.broker == "broker-1"
        with mq.faults.refuse_sends(), pytest.raises(SendFailed):
            producer.send(Message("orders", b"2"), timeout_s=0.5)
        assert "a test refuses sends to orders" in mq.explain("orders")


def test_commits_that_are_dropped_let_messages_come_again() -> None:
    with cluster() as mq:
        for number in range(3):
            mq.send("orders", str(number))
        with mq.faults.drop_commits(group="billing") as dropped:
            with billing(mq) as first:
                mq.wait_until_handled("orders", group="billing")
            assert dropped.struck > 0
            assert mq.handled("orders", group="billing") == 0
        with billing(mq) as second:
            mq.wait_until_handled("orders", group="billing")
        assert sorted(first) == sorted(second) == [b"0", b"1", b"2"]
        assert mq.handled("orders", group="billing") == 3


def test_commits_of_others_are_dropped_as_well() -> None:
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        client.send("orders", b"1")
        client.heartbeat("ruby-1", "billing", "orders")
        with mq.faults.drop_commits():
            assert client.commit("billing", "orders", 1) == 0
        assert mq.handled("orders", group="billing") == 0


def test_a_broker_that_is_cut_off_lets_nobody_in_until_it_is_healed() -> None:
    with cluster(brokers=2) as mq, Producer(mq.address) as producer:
        mq.create_topic("orders", 1)
        with ForeignClient(mq.brokers["broker-0"]) as open_before:
            assert open_before.send("orders", b"0")["code"] == 0
            with mq.faults.cut("broker-0"):
                with pytest.raises(OSError, match=r"closed|reset|Broken"):
                    open_before.send("orders", b"1")
                with (
                    pytest.raises(OSError, match=r"closed|reset|Broken"),
                    ForeignClient(mq.brokers["broker-0"]) as late,
                ):
                    late.send("orders", b"1")
                for _ in range(3):
                    assert producer.send(Message("orders", b"2")).queue.broker == "broker-1"
        with ForeignClient(mq.brokers["broker-0"]) as after:
            assert after.send("orders", b"3")["code"] == 0


def test_connections_that_are_cut_once_come_again() -> None:
    with cluster() as mq, billing(mq) as billed, ForeignClient(mq.brokers["broker-0"]) as bystander:
        mq.send("orders", b"1")
        mq.wait_until_handled("orders", group="billing")
        assert mq.faults.cut_connections("broker-0", group="billing") > 0
        assert mq.faults.cut_connections(client="nobody") == 0
        assert bystander.send("orders", b"2")["code"] == 0
        mq.wait_until_handled("orders", group="billing", count=2)
        assert sorted(set(billed)) == [b"1", b"2"]


def test_a_member_without_name_server_goes_on() -> None:
    with cluster() as mq, billing(mq), ForeignClient(mq.brokers["broker-0"]) as client:
        mq.send("orders", b"1")
        mq.wait_until_handled("orders", group="billing")
        host, _, port = mq.address.rpartition(":")
        with mq.faults.stop_name_server():
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((host, int(port)), timeout=1)
            client.send("orders", b"2")
            mq.wait_until_handled("orders", group="billing", count=2)
        socket.create_connection((host, int(port)), timeout=1).close()


def test_a_fault_that_cannot_be_is_refused() -> None:
    with cluster() as mq:
        with pytest.raises(ConfigurationError, match="there is no broker 'broker-9'; there are: broker-0"):
            mq.faults.drop_acks("broker-9")
        with pytest.raises(ConfigurationError, match="a share of 0 is not possible"):
            mq.faults.drop_acks(share=0)
        with pytest.raises(ConfigurationError, match="a count of 0 is not possible"):
            mq.faults.duplicate(count=0)


def test_of_two_faults_alike_the_other_one_goes_on() -> None:
    with cluster(brokers=2) as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        with mq.faults.slow_broker("broker-0", ms=60):
            with mq.faults.slow_broker(ms=1):
                pass
            start_s = time.monotonic()
            client.send("orders", b"1")
            assert time.monotonic() - start_s >= 0.06
        with mq.faults.cut("broker-1"):
            mq.faults.cut().heal()
            with pytest.raises(ConnectionError), ForeignClient(mq.brokers["broker-1"]) as other:
                other.send("orders", b"2")
        first, second = mq.faults.kill_broker("broker-1"), mq.faults.kill_broker("broker-1")
        first.heal()
        with pytest.raises(ConnectionRefusedError):
            ForeignClient(mq.brokers["broker-1"])
        second.heal()
        with ForeignClient(mq.brokers["broker-1"]) as other:
            assert other.send("orders", b"3")["code"] == 0


def test_a_broker_that_was_restarted_can_be_killed_and_healed_again() -> None:
    with cluster() as mq:
        mq.faults.kill_broker("broker-0")
        mq.faults.restart_broker("broker-0")
        mq.faults.kill_broker("broker-0").heal()
        with ForeignClient(mq.brokers["broker-0"]) as client:
            assert client.send("orders", b"1")["code"] == 0


def test_a_fault_that_outlives_its_cluster_is_over() -> None:
    with cluster() as mq:
        faults = mq.faults.slow_broker(ms=1), mq.faults.cut(), mq.faults.kill_broker("broker-0")
    for fault in faults:
        fault.heal()
        assert "healed" in repr(fault)


def test_what_cannot_be_slow_or_is_not_there_is_reported() -> None:
    with cluster() as mq:
        with pytest.raises(ConfigurationError, match="slow by -5 ms"):
            mq.faults.slow_broker(ms=-5)
        with pytest.raises(ConfigurationError, match="no name server 7"):
            mq.faults.stop_name_server(7)
        with pytest.raises(ConfigurationError, match="no broker 'nope'"):
            mq.faults.restart_broker("nope")
