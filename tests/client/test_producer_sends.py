"""A message is sent, by whichever way, and a broker has it: which queue, which id, how late, how large."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from steelyard.aio import Producer as AsyncProducer
from steelyard.balance.producer.queue_selection import fnv1a
from steelyard.broker.options import BrokerOptions
from steelyard.client.config import ClientConfig
from steelyard.client.producer.options import ProducerOptions, ProducerSettings
from steelyard.client.producer.send_result import SendResult
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.errors import (
    ConfigurationError,
    MessageRefused,
    NoNameServer,
    ReplyTimedOut,
    SelectorFailed,
    SendFailed,
    TopicNotFound,
)
from steelyard.model import Message, Queue, java_hash
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.property_names import DELAY_LEVEL, REAL_TOPIC, TIMER_DELAY_MS
from tests.client.proxy import detour
from tests.client.sending_scene import scene, stored, stored_bodies
from tests.compressions import EACH_NAME
from tests.waiting import until


def test_a_message_is_stored_as_it_was_given() -> None:
    with scene() as cluster, Producer(cluster.namesrv, group="shop") as producer:
        order = Message("orders", b'{"id": 1}', tags="paid", keys=["order-1", "till-2"], properties={"region": "eu"})
        sent = producer.send(order)
        (message,) = stored(cluster)[sent.queue]
    assert (sent.offset, sent.late, sent.attempts) == (0, False, ())
    assert message.message_id == sent.message_id
    assert (message.body, message.tags, message.keys) == (b'{"id": 1}', "paid", ("order-1", "till-2"))
    assert message.properties["region"] == "eu"


def test_the_same_in_asyncio() -> None:
    async def scenario(namesrv: str) -> None:
        async with AsyncProducer(namesrv) as producer:
            sent = await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(200)))
            assert Counter(each.queue for each in sent).most_common()[-1][1] == 50
            assert len({each.message_id for each in sent}) == 200

    with scene() as cluster:
        asyncio.run(scenario(cluster.namesrv))
        assert sorted(map(int, stored_bodies(cluster))) == list(range(200))


def test_eight_threads_put_exactly_as_many_on_each_queue() -> None:
    with scene(2, queues=4) as cluster, Producer(cluster.namesrv) as producer:

        def send() -> None:
            for _ in range(50):
                producer.send(Message("orders", b"x"))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = [len(messages) for messages in stored(cluster).values()]
    assert counts == [50] * 8


def test_a_key_has_the_queue_that_javas_hash_gives_it_whichever_way_it_is_sent() -> None:
    with scene(2) as cluster, Producer(cluster.namesrv) as producer:
        queues = [Queue("orders", broker, number) for broker in ("broker-0", "broker-1") for number in range(4)]
        for key in ("order-1", "order-2", "Ünïcödé", "polygenelubricants"):
            expected = queues[abs(java_hash(key)) % 8]
            assert producer.send(Message("orders", b"x"), key=key).queue == expected
            assert producer.submit(Message("orders", b"x"), key=key).result().queue == expected
            assert producer.send_many([Message("orders", b"x")] * 2, key=key)[1].queue == expected
        assert producer.send(Message("orders", b"x"), key=5).queue == queues[5]


def test_a_selector_chooses_by_name_or_by_code() -> None:
    def second(queues: Sequence[Queue], message: Message) -> Queue:
        assert message.body == b"mine"
        return queues[1]

    def nothing(_queues: Sequence[Queue], _message: Message) -> None:
        return None

    with scene() as cluster, Producer(cluster.namesrv) as producer:
        assert producer.send(Message("orders", b"mine"), select=second).queue.queue_id == 1
        hashed = producer.send(Message("orders", b"x"), select="fnv1a", key="order-1")
        assert hashed.queue.queue_id == fnv1a("order-1") % 4
        turns = [producer.send(Message("orders", b"x"), select="round-robin").queue.queue_id for _ in range(8)]
        assert sorted(turns) == [0, 0, 1, 1, 2, 2, 3, 3]
        last = Queue("orders", "broker-0", 3)
        assert producer.send(Message("orders", b"x"), queue=last).queue == last
        with pytest.raises(SelectorFailed, match="'nothing' returned no queue"):
            producer.send(Message("orders", b"x"), select=nothing)
        with pytest.raises(ConfigurationError, match="a queue is given, and a key"):
            producer.send(Message("orders", b"x"), queue=last, key="k")
        with pytest.raises(ConfigurationError, match="to go to audit"):
            producer.send(Message("orders", b"x"), queue=Queue("audit", "broker-0", 0))


def test_a_selector_is_given_its_argument_whichever_way_a_message_is_sent() -> None:
    seen: list[object] = []

    def by_shard(queues: Sequence[Queue], _message: Message, shard: int) -> Queue:
        seen.append(shard)
        return queues[shard or 0]

    class Shards:
        def choose(self, queues: Sequence[Queue], _message: Message, shard: int) -> Queue:
            return queues[shard]

    async def send(namesrv: str) -> SendResult:
        async with AsyncProducer(namesrv) as producer:
            return await producer.send(Message("orders", b"x"), select=by_shard, select_arg=3)

    with scene() as cluster, Producer(cluster.namesrv) as producer, Producer(cluster.namesrv, linger_ms=1) as lingering:
        message = Message("orders", b"x")
        assert producer.send(message, select=by_shard, select_arg=2).queue.queue_id == 2
        assert producer.send(message, select=Shards().choose, select_arg=2).queue.queue_id == 2
        assert producer.send(message, select=by_shard, select_arg=1, delay_s=1).late is False
        assert producer.submit(message, select=by_shard, select_arg=3).result().queue.queue_id == 3
        assert lingering.send(message, select=by_shard, select_arg=3).queue.queue_id == 3
        assert asyncio.run(send(cluster.namesrv)).queue.queue_id == 3
        with pytest.raises((ReplyTimedOut, SendFailed)):  # nobody replies
            producer.request(message, select=by_shard, select_arg=1, timeout_s=0.2)
        assert producer.send(message, select=by_shard).queue.queue_id == 0
        assert seen == [2, 1, 3, 3, 3, 1, None]
        assert producer.send(message, select="fnv1a", select_arg="order-1").queue.queue_id == fnv1a("order-1") % 4


def test_a_selector_of_two_parameters_is_never_given_more() -> None:
    def of_two(queues: Sequence[Queue], _message: Message, place: int = 3) -> Queue:
        return queues[place]

    def just_two(queues: Sequence[Queue], _message: Message) -> Queue:
        return queues[1]

    with scene() as cluster, Producer(cluster.namesrv) as producer:
        message = Message("orders", b"x")
        assert producer.send(message, select=of_two).queue.queue_id == 3
        assert producer.send(message, select=partial(of_two, place=2)).queue.queue_id == 2
        assert producer.send(message, select=just_two).queue.queue_id == 1
        with pytest.raises(ConfigurationError, match="the selector 'just_two' has no parameter for it"):
            producer.send(message, select=just_two, select_arg=5)
        with pytest.raises(ConfigurationError, match="select_arg is given, and no selector"):
            producer.send(message, select_arg=5)
        with pytest.raises(ConfigurationError, match="select_arg is given, and a key too"):
            producer.send(message, select="hash", key="k", select_arg="k")


def test_the_machine_room_of_a_producer_is_preferred_and_all_queues_are_used_where_it_has_none() -> None:
    message = Message("orders", b"x")
    with (
        Cluster(broker_name="east@a") as east,
        Cluster(name_servers=0, join=(east.namesrv,), broker_name="west@b") as west,
        Admin(east.namesrv) as admin,
    ):
        admin.topics.create("orders", 2)
        with Producer(east.namesrv, rooms=["west"]) as near:
            sent = [near.send(message, select="machine-room").queue for _ in range(4)]
            assert Counter(sent) == {Queue("orders", "west@b", number): 2 for number in range(2)}
        with Producer(east.namesrv, rooms={"south"}) as far:
            sent = [far.submit(message, select="machine-room").result().queue for _ in range(4)]
            assert {queue.broker for queue in sent} == {*east.brokers, *west.brokers}
        with Producer(east.namesrv) as nowhere, pytest.raises(ConfigurationError, match="'machine-room' needs rooms"):
            nowhere.send(message, select="machine-room")
    with pytest.raises(ConfigurationError, match=r"rooms is 'west'; give a collection: \['west'\]"):
        Producer("localhost:9876", rooms="west")


def test_a_topic_that_does_not_exist_is_made_by_its_first_message_and_its_own_route_is_used_soon() -> None:
    with Cluster() as cluster, Producer(cluster.namesrv) as producer:
        assert producer.send(Message("fresh", b"first")).queue.topic == "fresh"
        rotation = producer._client.preparer.rotations.by_topic.get("fresh")
        assert rotation is not None
        until(lambda: not rotation.is_default_topic)
        assert len(rotation.queues) == 4


def test_a_topic_that_may_not_be_made_is_named_with_what_was_probably_meant() -> None:
    options = BrokerOptions(auto_create_topics=False)
    with scene(options=options) as cluster, Producer(cluster.namesrv) as producer:
        with pytest.raises(TopicNotFound, match="Did you mean 'orders'") as caught:
            producer.send(Message("ordres", b"x"))
        assert "steelyard topic create ordres" in str(caught.value)
        with pytest.raises(TopicNotFound):
            producer.submit(Message("ordres", b"x")).result()
        with pytest.raises(TopicNotFound):
            producer.send_many([Message("ordres", b"x")])


def test_a_namespace_is_put_in_front_on_the_wire_and_shown_to_nobody() -> None:
    with Cluster() as cluster, Producer(ClientConfig(cluster.namesrv, namespace="eu"), group="shop") as producer:
        seen: list[Queue] = []

        def first(queues: Sequence[Queue], message: Message) -> Queue:
            assert message.topic == "orders"
            seen.extend(queues)
            return queues[0]

        assert producer.send(Message("orders", b"x")).queue.topic == "orders"
        assert producer.send(Message("orders", b"y"), select=first).queue.topic == "orders"
        assert producer.send_many([Message("orders", b"z")] * 2)[0].queue.topic == "orders"
        assert {queue.topic for queue in seen} == {"orders"}
        assert sorted(stored_bodies(cluster, "eu%orders")) == [b"x", b"y", b"z", b"z"]


def test_a_delay_is_a_level_or_a_time() -> None:
    with scene() as cluster, detour(cluster) as around, Producer(around.namesrv) as producer:
        producer.send(Message("orders", b"x"), delay_s=30)
        producer.send(Message("orders", b"x"), delay_s=45)
        producer.submit(Message("orders", b"x"), deliver_at=datetime.now(UTC) + timedelta(hours=1)).result()
        sends = [str(each.texts()["i"]) for each in around.brokers["broker-0"].requests(RequestCode.SEND_MESSAGE_V2)]
        assert f"{DELAY_LEVEL}\x014\x02" in sends[0]
        assert f"{TIMER_DELAY_MS}\x0145000\x02" in sends[1]
        assert "TIMER_DELIVER_MS\x01" in sends[2]
        assert REAL_TOPIC not in sends[0]
        with pytest.raises(ConfigurationError, match="a delay and a moment"):
            producer.send(Message("orders", b"x"), delay_s=1, deliver_at=datetime.now(UTC))


@pytest.mark.parametrize("compression", EACH_NAME)
def test_a_large_body_travels_compressed_and_is_read_as_it_was(compression: str) -> None:
    body = b"steelyard " * 100_000
    with scene() as cluster, detour(cluster) as around, Producer(around.namesrv, compression=compression) as producer:
        producer.send(Message("orders", body))
        producer.submit(Message("orders", body)).result()
        producer.send(Message("orders", body[:4095]))
        sizes = [len(each.body) for each in around.brokers["broker-0"].requests(RequestCode.SEND_MESSAGE_V2)]
        assert max(sizes[:2]) < 20_000
        assert sizes[2] == 4095
        assert sorted(stored_bodies(cluster)) == [body[:4095], body, body]


def test_what_cannot_be_sent_is_refused_before_it_is() -> None:
    with scene() as cluster, Producer(cluster.namesrv, max_message_bytes=1_000) as producer:
        with pytest.raises(MessageRefused, match="its body has 1001 bytes, the limit is 1000"):
            producer.send(Message("orders", b"x" * 1_001))
        with pytest.raises(MessageRefused, match="its body is empty"):
            producer.submit(Message("orders", b""))
        with pytest.raises(MessageRefused, match="its body is empty"):
            producer.send_many([Message("orders", b"x"), Message("orders", b"")])
        assert stored_bodies(cluster) == []


def test_one_way_messages_arrive_too_but_nobody_promises() -> None:
    async def scenario(namesrv: str) -> None:
        async with AsyncProducer(namesrv) as producer:
            for _ in range(10):
                await producer.post(Message("orders", b"loop"))

    with scene() as cluster:
        with Producer(cluster.namesrv) as producer:
            for _ in range(10):
                producer.post(Message("orders", b"thread"))
        asyncio.run(scenario(cluster.namesrv))
        until(lambda: len(stored_bodies(cluster)) == 20)


def test_a_name_server_that_is_not_there_is_named() -> None:
    with Cluster() as cluster:
        gone = cluster.namesrv
    with pytest.raises(NoNameServer, match=gone):
        Producer(ClientConfig(gone, timeout_s=0.2)).send(Message("orders", b"x"))


def test_options_are_checked_and_both_lists_of_them_agree() -> None:
    assert {each.name for each in fields(ProducerOptions)} == set(ProducerSettings.__annotations__)
    for wrong in (
        ProducerSettings(retries=-1),
        ProducerSettings(timeout_s=0),
        ProducerSettings(compression="rar"),
        ProducerSettings(latency_table="slowish"),
        ProducerSettings(in_flight=0),
        ProducerSettings(linger_ms=-1),
    ):
        with pytest.raises(ConfigurationError):
            Producer("localhost:9876", **wrong)
    with pytest.raises(ConfigurationError, match="no group"):
        Producer("localhost:9876", group="")
