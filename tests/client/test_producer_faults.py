"""Brokers fail, and the messages go on: another broker, the same queue again, a route that is looked up anew.

Both ways of sending are held to it: in the caller's thread, and on the loop.
"""

import re
import threading

import pytest

from steelyard.balance.producer.broker_latency import LatencyTable
from steelyard.client.producer.send_result import SendResult
from steelyard.client.sync.producer import Producer
from steelyard.errors import PartlySent, SendFailed
from steelyard.model import Message, Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from tests.client.proxy import Detour, detour
from tests.client.send_paths import Way, both_ways
from tests.client.sending_scene import scene, stored, stored_bodies
from tests.latency_clock import Advance
from tests.waiting import until

ORDER = Message("orders", b"x")
IMPATIENT = LatencyTable("impatient", steps_ms=(0, 50), avoid_for_ms=(0, 30_000), failure_ms=50)


@both_ways
def test_a_broker_that_refuses_is_avoided_and_the_result_reports_it(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        around.brokers["broker-1"].refuse()
        sent = [way(producer)(ORDER) for _ in range(16)]
    assert {each.queue.broker for each in sent} == {"broker-0"}
    tried = [attempt for each in sent for attempt in each.attempts]
    assert {broker for broker, _, _ in tried} == {"broker-1"}
    assert "refused" in tried[0][2]


@both_ways
@pytest.mark.usefixtures("quick_failover")
def test_a_broker_that_does_not_answer_does_not_eat_the_whole_time(around: Detour, way: Way) -> None:
    with Producer(around.namesrv, timeout_s=10) as producer:
        around.brokers["broker-1"].swallows = True
        sent = [way(producer)(ORDER)]
        while not sent[-1].attempts:  # two at most, for they take turns
            sent.append(way(producer)(ORDER))
        around.brokers["broker-1"].swallows = False
    assert {each.queue.broker for each in sent} == {"broker-0"}
    (broker, _, why), *_ = sent[-1].attempts
    assert broker == "broker-1"
    allowed = re.search(r"did not answer request 310 in (\d+) ms", why)
    assert allowed is not None
    assert 0 < int(allowed[1]) <= 500, "a part of what is left; balance/test_send_attempts.py says which"


@both_ways
def test_when_all_fail_the_error_lists_every_attempt(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER)
        for proxy in around.brokers.values():
            proxy.refuse()
        with pytest.raises(SendFailed) as caught:
            way(producer)(ORDER)
    error = caught.value
    assert len(error.attempts) == 3
    assert {broker for broker, _, _ in error.attempts} == {"broker-0", "broker-1"}
    assert "3 attempts were made" in str(error)
    for broker, took_ms, why in error.attempts:
        assert f"{broker} after {took_ms} ms ({why})" in str(error)


@both_ways
def test_the_deadline_ends_a_send_to_brokers_that_say_nothing(around: Detour, way: Way) -> None:
    with Producer(around.namesrv, timeout_s=0.4, retries=5) as producer:
        for proxy in around.brokers.values():
            proxy.swallows = True
        with pytest.raises(SendFailed) as caught:
            way(producer)(ORDER)
        for proxy in around.brokers.values():
            proxy.swallows = False
    assert "its 400 ms are over" in str(caught.value)
    assert len(caught.value.attempts) < 6


@both_ways
def test_a_chosen_queue_is_tried_again_and_nothing_else_is(around: Detour, way: Way) -> None:
    wanted = Queue("orders", "broker-1", 2)
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER, queue=wanted)
        around.brokers["broker-1"].cut()
        around.brokers["broker-1"].cuts_after_sends = 1
        sent = way(producer)(ORDER, queue=wanted)
    assert sent.queue == wanted
    assert {broker for broker, _, _ in sent.attempts} == {"broker-1"}


@both_ways
def test_a_broker_that_moved_is_found_within_the_send(cluster: Cluster, around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER)
        with detour(cluster) as elsewhere:
            for name, proxy in around.brokers.items():
                proxy.refuse()
                around.name_server.renames[cluster.brokers[name]] = elsewhere.brokers[name].address
            sent = way(producer)(ORDER)
            assert sent.attempts
            assert elsewhere.brokers[sent.queue.broker].requests(RequestCode.SEND_MESSAGE_V2)


@both_ways
def test_without_a_name_server_known_topics_are_sent_to(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        way(producer)(ORDER)
        around.name_server.refuse()
        around.brokers["broker-1"].refuse()
        sent = [way(producer)(ORDER) for _ in range(8)]
    assert {each.queue.broker for each in sent} == {"broker-0"}


@both_ways
def test_a_connection_that_was_cut_while_nobody_sent_costs_nothing_much(around: Detour, way: Way) -> None:
    with Producer(around.namesrv) as producer:
        for _ in range(8):
            way(producer)(ORDER)
        for proxy in around.brokers.values():
            proxy.cut()
        assert len([way(producer)(ORDER) for _ in range(8)]) == 8


@both_ways
def test_a_slow_broker_is_avoided_and_shown(around: Detour, way: Way, advance: Advance) -> None:
    with Producer(around.namesrv, avoid_slow_brokers=True, latency_table="classic") as producer:
        for _ in range(16):
            way(producer)(ORDER)
        around.brokers["broker-1"].on_send = lambda: advance(800)
        sent = [way(producer)(ORDER) for _ in range(20)]
        slow = [each for each in sent if each.queue.broker == "broker-1"]
        assert len(slow) == 1, "one send meets it, the next ones walk around"
        standing = {each.broker: each for each in producer.brokers()}
        assert standing["broker-1"].share == 0
        assert standing["broker-1"].avoided_until_ms is not None
        assert standing["broker-1"].why.startswith("it took 800 ms")
        assert standing["broker-0"].why == ""


@both_ways
@pytest.mark.parametrize("relative_to_median", [False, True])
def test_where_all_are_slow_sends_go_on(around: Detour, way: Way, relative_to_median: bool) -> None:
    with Producer(
        around.namesrv, avoid_slow_brokers=True, latency_table=IMPATIENT, relative_to_median=relative_to_median
    ) as producer:
        for proxy in around.brokers.values():
            proxy.delay_ms = 60
        sent = [way(producer)(ORDER) for _ in range(4)]
        assert all(not each.attempts for each in sent)


def test_a_broker_that_dies_under_load_loses_no_message_of_those_that_were_promised() -> None:
    with scene(3) as cluster, Producer(cluster.namesrv) as producer:
        sent: list[SendResult] = []
        failed: list[BaseException] = []
        is_over = threading.Event()

        def send() -> None:
            while not is_over.is_set():
                try:
                    sent.append(producer.send(Message("orders", b"%d" % len(sent))))
                    sent.append(producer.submit(Message("orders", b"%d" % len(sent))).result())
                except SendFailed as error:
                    failed.append(error)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(sent) > 200)
        cluster.kill_broker("broker-2")
        until(lambda: any(each.attempts for each in list(sent)))
        before = len(sent)
        until(lambda: len(sent) > before + 200)
        is_over.set()
        for thread in threads:
            thread.join()
        there = {
            message.message_id
            for messages in stored(cluster, brokers=("broker-0", "broker-1")).values()
            for message in messages
        }
    assert not failed
    assert {each.message_id for each in sent if each.queue.broker != "broker-2"} <= there


@pytest.mark.parametrize("is_stored", [False, True], ids=["it refuses", "it stores and its answers are lost"])
def test_of_many_messages_the_error_says_which_are_stored(cluster: Cluster, around: Detour, is_stored: bool) -> None:
    stuck = Queue("orders", "broker-1", 3)
    broker = around.brokers["broker-1"]

    def refuse_once_stored() -> None:
        until(lambda: len(stored_bodies(cluster)) == 41)
        broker.refuse()

    with Producer(around.namesrv) as producer:
        producer.send(ORDER, queue=stuck)
        if is_stored:
            broker.swallows = True
            refusing = threading.Thread(target=refuse_once_stored)
            refusing.start()
        else:
            broker.refuse()
        with pytest.raises(PartlySent) as caught:
            producer.send_many(
                [Message("orders", b"%d" % number) for number in range(40)],
                key=lambda message: int(message.body) % 8,
            )
        if is_stored:
            refusing.join()
    error = caught.value
    assert len(error.results) == 40
    assert len(error.stored) == 20
    for number, result in enumerate(error.results):
        assert isinstance(result, SendResult if number % 8 < 4 else SendFailed)
    assert "20 of 40 messages were not stored" in str(error)
    good = {each.message_id for each in error.stored if isinstance(each, SendResult)}
    assert good <= {message.message_id for messages in stored(cluster).values() for message in messages}
    assert len(stored_bodies(cluster)) == (41 if is_stored else 21)
