from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.client.bulk.bulk_sender import BulkSender, EncodedBatch
from steelyard.client.bulk.connection_pool import ConnectionPool
from steelyard.client.config import ClientConfig
from steelyard.errors import NoNameServer, SendFailed, TopicNotFound
from steelyard.model import Message, Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.batch import encode_batch, make_batch_item
from steelyard.wire.codes import RequestCode
from tests.client.proxy import detour
from tests.client.sending_scene import scene, stored, stored_bodies

_TIMEOUT_MS = 20_000


def bundle(*bodies: bytes, topic: str = "orders", queue: Queue | None = None, delay_ms: int = 0) -> EncodedBatch:
    items = [make_batch_item(Message("orders", body, tags="paid"), unique_key=f"U{body.decode()}") for body in bodies]
    return EncodedBatch(topic, encode_batch(items), len(bodies), queue, bool(delay_ms), delay_ms)


@contextmanager
def sender(namesrv: str, *, depth: int = 16, namespace: str = "") -> Iterator[BulkSender]:
    buffer = ConnectionPool()
    connect = ClientConfig(namesrv, namespace=namespace)
    with BulkSender(connect, "a-group", depth=depth, timeout_ms=_TIMEOUT_MS, pool=buffer) as made:
        yield made
    buffer.close()


def test_bundles_are_spread_over_the_queues_and_all_are_stored() -> None:
    with scene(2) as cluster, sender(cluster.namesrv) as bulk:
        for number in range(40):
            bulk.send(bundle(b"%d-a" % number, b"%d-b" % number))
        bulk.finish()
        assert bulk.stored == {"orders": 80}
        found = stored(cluster)
        assert {len(messages) for messages in found.values()} == {10}
        one = found[Queue("orders", "broker-0", 0)][0]
        assert (one.tags, one.message_id[0]) == ("paid", "U")


def test_what_goes_to_one_queue_keeps_its_order_and_one_is_under_way_at_a_time() -> None:
    with scene(2) as cluster, sender(cluster.namesrv) as bulk:
        chosen = bulk.queues("orders")[5]
        for number in range(50):
            bulk.send(bundle(b"%02d" % number, queue=chosen))
            bulk.send(bundle(b"any"))
        bulk.finish()
        held = [message.body for message in stored(cluster)[chosen] if message.body != b"any"]
        assert held == [b"%02d" % number for number in range(50)]


def test_a_connection_that_is_cut_again_and_again_reorders_nothing_and_loses_nothing() -> None:
    with scene(1) as cluster, detour(cluster) as way, sender(way.namesrv) as bulk:
        proxy = way.brokers["broker-0"]
        chosen = bulk.queues("orders")[2]
        for number in range(30):
            if number % 5 == 0:
                proxy.cuts_after_sends = 3
            bulk.send(bundle(b"%02d" % number, queue=chosen))
        bulk.finish()
        held = [message.body for message in stored(cluster)[chosen]]
        first_seen = list(dict.fromkeys(held))
        assert first_seen == [b"%02d" % number for number in range(30)]
        assert bulk.stored == {"orders": 30}


def test_a_broker_that_is_killed_costs_nothing_but_repeats() -> None:
    with scene(2) as cluster, sender(cluster.namesrv) as bulk:
        for number in range(100):
            if number == 30:
                cluster.kill_broker("broker-1")
            bulk.send(bundle(b"%d" % number))
        bulk.finish()
        assert bulk.stored == {"orders": 100}
        living = stored(cluster, brokers=["broker-0"])
        later = {message.body for messages in living.values() for message in messages}
        assert later >= {b"%d" % number for number in range(60, 100)}


@pytest.mark.usefixtures("quick_failover")
def test_a_broker_that_does_not_answer_is_avoided() -> None:
    with scene(2) as cluster, detour(cluster) as way, sender(way.namesrv) as bulk:
        bulk.send(bundle(b"first"))
        bulk.finish()
        way.brokers["broker-0"].swallows = True
        for number in range(20):
            bulk.send(bundle(b"%d" % number))
        bulk.finish()
        assert bulk.stored == {"orders": 21}
        assert set(stored_bodies(cluster)) == {b"first", *(b"%d" % number for number in range(20))}


def test_where_no_broker_takes_it_the_error_says_what_is_stored_and_what_was_tried() -> None:
    with scene(1) as cluster, detour(cluster) as way, sender(way.namesrv) as bulk:
        bulk.send(bundle(b"1", b"2"))
        bulk.finish()
        bulk._options = replace(bulk._options, timeout_ms=700)
        way.brokers["broker-0"].refuse()
        bulk.send(bundle(b"3"))
        with pytest.raises(SendFailed, match=r"1 message to 'orders' was not stored .* and 2 others were") as error:
            bulk.finish()
        assert 1 <= len(error.value.attempts) <= 3
        assert error.value.attempts[-1][0] == "broker-0"
        assert bulk.stored == {"orders": 2}


def test_after_a_failure_what_is_under_way_is_still_counted() -> None:
    with scene(1) as cluster, detour(cluster) as way, sender(way.namesrv) as bulk:
        way.brokers["broker-0"].delay_ms = 50
        bulk.send(bundle(b"good"))
        bulk.send(EncodedBatch("orders", b"damaged", 1))
        bulk.send(bundle(b"good too"))
        with pytest.raises(SendFailed, match="1 message to 'orders' was not stored in 1 attempt"):
            bulk.finish()
        with pytest.raises(SendFailed):
            bulk.send(bundle(b"too late"))
        assert bulk.stored == {"orders": 2}


def test_a_broker_that_comes_back_at_its_address_is_waited_for() -> None:
    with scene(1) as cluster, sender(cluster.namesrv) as bulk:
        chosen = bulk.queues("orders")[0]
        bulk.send(bundle(b"before", queue=chosen))
        bulk.finish()
        cluster.stop_broker("broker-0")
        bulk.send(bundle(b"after", queue=chosen))
        cluster.start_broker("broker-0")
        bulk.finish()
        assert bulk.stored == {"orders": 2}


def test_a_message_with_a_delay_travels_alone_and_arrives_later() -> None:
    with scene(1) as cluster, sender(cluster.namesrv) as bulk:
        bulk.send(bundle(b"later", delay_ms=3_600_000))
        bulk.send(bundle(b"level", delay_ms=1_000))
        bulk.send(bundle(b"now"))
        bulk.finish()
        assert bulk.stored == {"orders": 3}
        assert b"later" not in stored_bodies(cluster)


def test_a_topic_that_is_not_there_is_made_by_its_first_message() -> None:
    with scene(1) as cluster, sender(cluster.namesrv) as bulk:
        bulk.send(bundle(b"1", topic="new"))
        bulk.finish()
        assert stored_bodies(cluster, "new") == [b"1"]


def test_where_topics_are_not_made_by_themselves_the_error_says_how_to_make_one() -> None:
    with (
        scene(1, options=BrokerOptions(auto_create_topics=False)) as cluster,
        sender(cluster.namesrv) as bulk,
        pytest.raises(TopicNotFound, match=r"Did you mean 'orders'\? Create it with: steelyard topic create ordres"),
    ):
        bulk.send(bundle(b"1", topic="ordres"))


def test_without_a_name_server_the_error_reports_it() -> None:
    with Cluster() as cluster:
        address = cluster.namesrv
    with sender(address) as bulk, pytest.raises(NoNameServer):
        bulk.queues("orders")


def test_topics_and_groups_have_the_namespace_on_the_wire() -> None:
    with scene(1, topic="eu%orders") as cluster, detour(cluster) as way:
        with sender(way.namesrv, namespace="eu") as bulk:
            bulk.send(bundle(b"1"))
            bulk.finish()
            assert bulk.stored == {"orders": 1}
        (request,) = way.brokers["broker-0"].requests(RequestCode.SEND_BATCH_MESSAGE)
        assert (request.texts()["a"], request.texts()["b"]) == ("eu%a-group", "eu%orders")


def test_connections_rest_between_senders() -> None:
    with scene(1) as cluster:
        buffer, connect = ConnectionPool(), ClientConfig(cluster.namesrv)
        for _ in range(2):
            with BulkSender(connect, "a-group", pool=buffer) as bulk:
                bulk.send(bundle(b"1"))
                bulk.finish()
            assert len(buffer) == 1
        buffer.close()
