"""A namespace is in every name on the wire and in none that its users see; other namespaces are somewhere else."""

import pytest

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, PullConsumer, ReceivedMessage
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, poll_all, send_all, shown


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


def test_names_are_wrapped_on_the_wire_and_bare_for_their_users(
    cluster: Live, admin: Admin, topic: str, group: str
) -> None:
    here = ClientConfig(cluster.namesrv, namespace="eu")
    handled, moves = Handled(), []
    consumer = Consumer(here, group=group, start_from="first")

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        handled(message)
        if message.attempt == 1:
            message.later(delay_s=1)

    consumer.on_rebalance(lambda moved: moves.extend(moved.taken))
    with Admin(here) as insider, Producer(here, group="senders") as producer:
        insider.topics.create(topic, 2)
        with consumer:
            sent = producer.send(Message(topic, b"inside"))
            assert sent.queue.topic == topic
            handled.wait(2, cluster.pass_time)
            assert {message.topic for message in handled.messages if isinstance(message, ReceivedMessage)} == {topic}
            assert {queue.topic for queue in owned(consumer, topic)} == {topic}
            assert len(owned(consumer, topic)) == 4
            assert topic in {queue.topic for queue in moves}
            assert [member.id for member in insider.groups.members(group)] == [consumer.id]
            outside = {each.name for each in admin.topics.list()}
            assert {topic, f"eu%{topic}"} <= outside
            assert f"eu%{group}" in {each.name for each in admin.groups.list()}
            assert f"%RETRY%eu%{group}" in {each.name for each in admin.topics.list(system=True)}
            until(lambda: len(admin.messages.list(f"eu%{topic}")) == 1, "it is where its full name says")
            assert admin.messages.list(topic) == []
        assert {each.name for each in insider.topics.list()} == {topic}
        with PullConsumer(here, group=f"{group}-puller", start_from="first") as pull_consumer:
            queues = pull_consumer.queues(topic)
            assert {queue.topic for queue in queues} == {topic}
            pull_consumer.assign(queues)
            (found,) = poll_all(pull_consumer, 1)
            assert (found.topic, found.body) == (topic, b"inside")
            pull_consumer.commit({found.queue: 1})
            assert pull_consumer.committed(sent.queue) == 1


def test_requests_and_transactions_stay_inside(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    here = ClientConfig(cluster.namesrv, namespace="us")
    consumer = Consumer(here, group=group, start_from="first")
    consumer.handles(topic)(lambda message: message.reply(message.topic.encode()))
    asked: list[str] = []

    def check(message: object) -> bool:
        asked.append(getattr(message, "topic", ""))
        return True

    with Admin(here) as insider:
        insider.topics.create(topic, 2)
        insider.topics.create(f"{topic}-2", 2)
        with consumer, Producer(here, group=group, check=check) as producer:
            assert producer.request(Message(topic, b"?"), timeout_s=30).body == topic.encode()
            with producer.transaction(Message(f"{topic}-2", b"committed")):
                pass
            with Producer(here, group=group) as crashed:
                crashed.transaction(Message(f"{topic}-2", b"asked about")).begin()
            both = {b"committed", b"asked about"}
            until(lambda: shown(insider, f"{topic}-2") == both, "both are shown", cluster.pass_time)
    assert set(asked) == {f"{topic}-2"}
    assert shown(admin, f"us%{topic}-2") == both


def test_two_namespaces_do_not_meet(cluster: Live, topic: str, group: str) -> None:
    handled = {name: Handled() for name in ("", "north", "south")}
    for name, seen in handled.items():
        here = ClientConfig(cluster.namesrv, namespace=name)
        with Admin(here) as admin, Producer(here, group="senders") as producer:
            admin.topics.create(topic, 4)
            send_all(producer, topic, [f"of {name}"])
        consumer = Consumer(here, group=group, start_from="first")
        consumer.handles(topic)(seen)
        with consumer:
            seen.wait(1)
    assert {name: seen.bodies for name, seen in handled.items()} == {name: [f"of {name}"] for name in handled}
