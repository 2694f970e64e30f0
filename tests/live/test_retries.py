"""A message that fails comes again, later and to its group alone; one that failed too often is a dead letter.

Brokers let a failed message wait for ten seconds the first time; `later` may ask for less.
"""

import pytest

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, ReceivedMessage
from tests.live.clusters import Live, until
from tests.live.handled import Handled


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


def test_a_message_that_raised_comes_again_after_ten_seconds(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled, attempts = Handled(), []
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic, tags="t")
    def handle(message: ReceivedMessage) -> None:
        attempts.append((message.body, message.attempt, message.topic))
        if message.body == b"bad" and message.attempt == 1:
            raise ValueError("not yet")
        handled(message)

    with consumer:
        sent = producer.send(Message(topic, b"bad", tags="t", keys="k", properties={"a": "b"}))
        producer.send(Message(topic, b"good", tags="t"))
        handled.wait(2, cluster.pass_time)
    assert [each for each in attempts if each[0] == b"bad"] == [(b"bad", 1, topic), (b"bad", 2, topic)]
    again = next(message for message in handled.messages if message.body == b"bad")
    assert (again.keys, again.tags, again.properties["a"]) == (("k",), "t", "b")
    assert again.message_id == sent.message_id
    assert again.stored_ms - again.born_ms >= 10_000


@pytest.mark.parametrize("on_loop", [False, True], ids=["in a thread", "on the loop"])
def test_a_handler_may_ask_for_a_message_later(
    cluster: Live, producer: Producer, topic: str, group: str, *, on_loop: bool
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    def handle(message: ReceivedMessage) -> None:
        handled(message)
        if message.attempt < 3:
            message.later(delay_s=1)

    async def handle_on_loop(message: ReceivedMessage) -> None:
        handle(message)

    consumer.handles(topic)(handle_on_loop if on_loop else handle)
    with consumer:
        producer.send(Message(topic, b"patience"))
        handled.wait(3, cluster.pass_time)
    assert [message.reconsume_times for message in handled.messages] == [0, 1, 2]
    assert len({message.message_id for message in handled.messages}) == 1


def test_what_fails_too_often_rests_in_the_dead_letters_and_may_be_sent_again(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    admin.groups.create(group, retries=0)
    handled = Handled()
    is_mended = False
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        handled(message)
        if not is_mended:
            raise ValueError("broken")

    assert admin.dead_letters.list(group) == []
    with consumer:
        sent = producer.send(Message(topic, b"lost cause", keys="k", properties={"a": "b"}))
        until(lambda: len(admin.dead_letters.list(group)) == 1, "it is among the dead letters")
        (dead,) = admin.dead_letters.list(group)
        assert (dead.body, dead.keys, dead.properties["a"]) == (b"lost cause", ("k",), "b")
        assert dead.message_id == sent.message_id
        is_mended = True
        admin.dead_letters.resend(dead)
        handled.wait(2)
    again = handled.messages[1]
    assert (again.body, again.topic, again.message_id) == (b"lost cause", topic, sent.message_id)
    assert len(admin.dead_letters.list(group)) == 1, "the letter itself stays where it is"


@pytest.mark.parametrize("kind", ["in a thread", "on the loop", "in batches", "orderly"])
def test_a_dead_letter_says_why_it_failed(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str, kind: str
) -> None:
    admin.groups.create(group, retries=0)
    config = ClientConfig(cluster.namesrv, access_key="shop", secret_key="hush-hush")
    consumer = Consumer(config if cluster.is_ours else cluster.namesrv, group, start_from="first", max_attempts=1)

    def fail(_message: object) -> None:
        raise ValueError("no customer 42\nfor key hush-hush")

    async def fail_on_loop(message: object) -> None:
        fail(message)

    is_batch = kind == "in batches"
    function = fail_on_loop if kind == "on the loop" else fail
    consumer.handles(topic, orderly=kind == "orderly", batch=8 if is_batch else 1)(function)
    body = b"x" * 10_000  # it is compressed
    with consumer:
        sent = producer.send(Message(topic, body, keys="k", properties={"a": "b"}))
        until(lambda: len(admin.dead_letters.list(group)) == 1, "it is among the dead letters")
    (dead,) = admin.dead_letters.list(group)
    assert (dead.body, dead.keys, dead.properties["a"], dead.message_id) == (body, ("k",), "b", sent.message_id)
    error = dead.properties.get("STEELYARD_ERROR")
    if cluster.is_ours:
        assert error == "ValueError: no customer 42 for key ***"
    else:
        assert (error is not None) == (kind == "orderly"), "Apache's brokers take no error with a send-back"


def test_a_resent_dead_letter_is_marked_and_so_is_what_dies_again(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    admin.groups.create(group, retries=0)
    consumer, handled = Consumer(cluster.namesrv, group, start_from="first"), Handled()

    @consumer.handles(topic)
    def fail(message: ReceivedMessage) -> None:
        handled(message)
        raise ValueError("broken")

    with consumer:
        producer.send(Message(topic, b"lost cause"))
        until(lambda: len(admin.dead_letters.list(group)) == 1, "it is among the dead letters")
        (dead,) = admin.dead_letters.list(group)
        assert admin.dead_letters.resends([dead]) == [None]
        admin.dead_letters.resend(dead)
        handled.wait(2)
        until(lambda: admin.dead_letters.resends([dead]) != [None], "its copy is found: Apache's key index is behind")
        (first,) = admin.dead_letters.resends([dead])
        assert first is not None
        assert first.at >= dead.stored_at
        assert "@" in first.by
        assert "STEELYARD_ERROR" not in handled.messages[1].properties
        # A letter of a message that is delivered once more goes through the retry queue's own limit again.
        until(lambda: len(admin.dead_letters.list(group)) == 2, "it is there twice", cluster.pass_time)
        assert admin.dead_letters.resends(admin.dead_letters.list(group)) == [first, first]


def test_an_orderly_queue_waits_for_the_message_that_fails(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic, orderly=True)
    def handle(message: ReceivedMessage) -> None:
        handled(message)
        if message.body == b"1" and message.attempt < 3:
            raise ValueError("not yet")

    for number in range(3):
        producer.send(Message(topic, str(number).encode()), key="one")
    with consumer:
        handled.wait(5)
    assert handled.bodies == ["0", "1", "1", "1", "2"]


def test_an_orderly_message_that_fails_for_good_makes_way(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first", max_attempts=1)

    @consumer.handles(topic, orderly=True)
    def handle(message: ReceivedMessage) -> None:
        handled(message)
        if message.body == b"1":
            raise ValueError("never")

    for number in range(3):
        producer.send(Message(topic, str(number).encode()), key="one")
    with consumer:
        handled.wait(lambda so_far: "2" in so_far.bodies)
        until(lambda: [each.body for each in admin.dead_letters.list(group)] == [b"1"], "it is among the dead letters")
    assert handled.bodies[0] == "0"
    assert handled.bodies[-1] == "2"


def test_a_batch_in_which_one_is_asked_for_later_has_the_others_done(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic, batch=10)
    def handle(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            handled(message)
            if message.body == b"3" and message.attempt == 1:
                message.later(delay_s=1)

    producer.send_many([Message(topic, str(number).encode()) for number in range(10)], key="one")
    with consumer:
        handled.wait(11, cluster.pass_time)
    assert sorted(handled.bodies) == sorted([*map(str, range(10)), "3"])
