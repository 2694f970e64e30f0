"""A cluster that is there is used under names of the test's own, which are gone afterwards."""

from steelyard import Consumer
from steelyard.serve.embedded import Cluster
from steelyard.testing import external
from steelyard.testing.fault_host import FaultHost, FaultyCluster
from tests.testing.foreign_client import ForeignClient


def test_messages_and_groups_of_two_tests_do_not_meet() -> None:
    with Cluster() as there, external(there.namesrv) as one, external(there.namesrv) as other:
        one.send("orders", b"1", tags="paid")
        other.assert_nothing_sent()
        other.send("orders", b"2")
        billed: list[bytes] = []
        consumer = Consumer(one.connect, "billing", start_from="first")
        consumer.handles("orders")(lambda message: billed.append(message.body))
        with consumer:
            one.wait_until_handled("orders", group="billing")
        assert billed == [b"1"]
        assert one.handled("orders", group="billing") == 1
        assert other.handled("orders", group="billing") == 0
        assert one.dead_letters("billing") == []


def test_other_languages_use_the_names_that_servers_know() -> None:
    with Cluster() as there, external(there.namesrv) as mq, ForeignClient(there.brokers["broker-0"]) as client:
        assert client.send(mq.name("orders"), b"1")["code"] == 0
        assert [message.body for message in mq.assert_sent("orders")] == [b"1"]


def test_nothing_stays_behind() -> None:
    with Cluster() as there, ForeignClient(there.namesrv) as names:
        with external(there.namesrv) as mq:
            mq.send("orders", b"1")
            full = mq.name("orders")
            assert names.route(full) == 0
        assert names.route(full) == 17


def test_what_is_everybodys_is_not_touched() -> None:
    host = FaultHost()
    with FaultyCluster(fault_host=host) as there:
        with external(there.namesrv) as mq:
            mq.send("orders", b"1")
        assert not [output for output in host.request_log.refusals if "DELETE" in output]
