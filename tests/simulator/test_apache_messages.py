"""The model of Apache's broker stores, delays and returns messages as Apache does."""

import pytest

from simulator.apache.broker import ApacheBrokerProcess
from simulator.world import World
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.headers.pull import PullMessageResponse
from steelyard.wire.headers.send import CheckTransactionState, EndTransaction, SendMessageBack, SendMessageResponse
from steelyard.wire.stored_messages import decode_messages
from tests.simulator.apache_client import GROUP, LEASE, TOPIC, ApacheTestClient, place

_BOTH = pytest.mark.parametrize("version", ["4.9", "5.x"])
_QUEUE = Queue(TOPIC, "b1", 0)


def guest_of(world: World, broker: ApacheBrokerProcess, name: str = "c1") -> ApacheTestClient:
    return ApacheTestClient(world, name, broker)


# -- pulls ------------------------------------------------------------------------------------------------------------


@_BOTH
def test_a_pull_waits_for_a_message_and_gets_it(version: str) -> None:
    world, _, broker = place(version=version)
    guest = guest_of(world, broker)
    guest.heartbeat()
    waiting = guest.pull(0)
    guest.pass_time(5_000)
    assert waiting not in guest.answers
    guest.send("p1-1")
    (message,) = decode_messages(guest.answers[waiting].body, "b1")
    assert (message.body, message.queue, message.offset) == (b"p1-1", _QUEUE, 0)


def test_a_pull_that_finds_nothing_ends_after_its_time_or_five_seconds_later() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.heartbeat()
    waiting = guest.pull(0)
    guest.pass_time(14_000)
    assert waiting not in guest.answers
    guest.pass_time(7_000)
    assert guest.answers[waiting].code == 19


def test_a_pull_of_somebody_who_is_not_registered_is_refused() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    waiting = guest.pull(0)
    guest.pass_time(100)
    assert guest.answers[waiting].code == 24


def test_a_pull_may_commit_on_its_way_and_is_corrected_where_it_is_out_of_range() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.heartbeat()
    guest.send("p1-1")
    moved = guest.pull(7, sys_flag=3, commit=5)
    guest.pass_time(100)
    assert guest.answers[moved].code == 21
    assert guest.answers[moved].header(PullMessageResponse).next_begin_offset == 1
    assert broker.committed_offsets() == {(GROUP, _QUEUE): 5}


# -- sending ----------------------------------------------------------------------------------------------------------


def test_the_first_send_makes_a_topic_that_the_name_server_learns_of() -> None:
    world, names, broker = place()
    guest = guest_of(world, broker)
    answer = guest.send("p1-1", 3, topic="new")
    assert answer.header(SendMessageResponse).queue_offset == 0
    assert len(broker.queues("new")) == 4
    guest.connection = world.network.connect(guest, names.address)
    route = decode_body(RouteBody, guest.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute("new")).body)
    assert len(route.route("new").readable_queues()) == 4


def test_a_message_sent_back_comes_again_after_its_delay_and_is_given_up_at_last() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.heartbeat(topics=(TOPIC, f"%RETRY%{GROUP}"))
    guest.send("p1-1")
    assert guest.ask(RequestCode.CONSUMER_SEND_MSG_BACK, SendMessageBack(0, GROUP, 0)).code == 0
    waiting = guest.pull(0, topic=f"%RETRY%{GROUP}")
    guest.pass_time(9_500)
    assert waiting not in guest.answers
    guest.pass_time(1_000)
    (message,) = decode_messages(guest.answers[waiting].body, "b1")
    assert (message.body, message.reconsume_times) == (b"p1-1", 1)
    last = SendMessageBack(message.position, GROUP, 0, max_reconsume_times=1)
    assert guest.ask(RequestCode.CONSUMER_SEND_MSG_BACK, last).code == 0
    assert [logged.uid for logged in broker.logged_messages() if logged.queue.topic == f"%DLQ%{GROUP}"] == ["p1-1"]


def test_a_delayed_message_waits_over_a_restart() -> None:
    world, _, broker = place()
    guest = guest_of(world, broker)
    guest.send("p1-1", properties="DELAY\x012\x02")
    broker.crash()
    broker.restart()
    guest.pass_time(4_500)
    assert broker.state.log.end(TOPIC, 0) == 0
    guest.pass_time(700)
    assert broker.state.log.end(TOPIC, 0) == 1


def test_release_5_sends_a_retry_to_the_dead_letters_if_the_group_has_any_lock() -> None:
    for version, lock_group, topic in (
        ("5.x", GROUP, f"%DLQ%{GROUP}"),
        ("5.x", LEASE, f"%RETRY%{GROUP}"),
        ("4.9", GROUP, f"%RETRY%{GROUP}"),
    ):
        world, _, broker = place(version=version)
        guest = guest_of(world, broker)
        guest.heartbeat()
        guest.lock(0, group=lock_group)
        guest.send("p1-1", topic=f"%RETRY%{GROUP}", tries=1)
        assert [logged.queue.topic for logged in broker.logged_messages()] == [topic]


def test_a_half_is_asked_about_and_a_second_commit_stores_a_second_copy() -> None:
    world, _, broker = place()
    producer = guest_of(world, broker, "p1")
    producer.heartbeat(producers="pg")
    producer.send("p1-1", properties="TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01A1\x02")
    assert broker.state.log.end(TOPIC, 0) == 0
    producer.pass_time(31_000)
    (question,) = producer.requests
    asked = question.header(CheckTransactionState)
    end = EndTransaction("pg", asked.tran_state_table_offset, asked.commit_log_offset, 8, "A1")
    for copies in (1, 2):
        assert producer.ask(RequestCode.END_TRANSACTION, end).code == 0
        assert broker.state.log.end(TOPIC, 0) == copies
    producer.pass_time(31_000)
    assert len(producer.requests) == 1
