"""Replicas and name servers that go away: a group reads on from the slave, and goes back to its master.

Apache's 4.9.7: a master, its slave, and beside them a broker that only holds the name server.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from steelyard import Admin, Consumer, Message, Producer, PullConsumer, ReceivedMessage
from steelyard.errors import SteelyardError
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import GetMaxOffset
from tests.interop.jars import NotReady
from tests.interop.our_nameserver import our_name_server
from tests.interop.servers import ApacheBroker, apache
from tests.live.clusters import until
from tests.live.handled import Handled, owned, poll_all, send_all

pytestmark = pytest.mark.timeout(300)

RELEASE = "4.9.7"
NUMBERS = [str(number) for number in range(60)]
_SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 64 << 20,
    "brokerIP2": "127.0.0.1",
}
_MEMORY = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC")


class Pair:
    """A master and its slave."""

    def __init__(self, root: Path, anchor: ApacheBroker) -> None:
        self.namesrv = f"127.0.0.1:{anchor.name_port}"
        shared = _SETTINGS | {"brokerName": "broker-b"}
        master = shared | {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
        slave = shared | {"brokerRole": "SLAVE", "brokerId": 1}
        self.master = ApacheBroker(RELEASE, root / "master", master, _MEMORY, anchor)
        self.slave = ApacheBroker(RELEASE, root / "slave", slave, _MEMORY, anchor)

    def has_all(self, topic: str, count: int) -> bool:
        """Say whether the slave has as many messages as were sent."""
        with Admin(self.namesrv) as admin:
            places = {broker.name: broker.addresses for broker in admin.brokers.list()}
        if set(places.get("broker-b", ())) != {0, 1}:
            return False
        return self._count(topic) == count

    def _count(self, topic: str) -> int:
        with self.slave.connection() as connection:
            answers = [connection.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, number)) for number in range(4)]
        return sum(answer.header(OffsetResponse).offset for answer in answers if answer.code == 0)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Run both."""
    with ExitStack() as stack:
        try:
            anchor = stack.enter_context(apache(RELEASE, tmp_path / "anchor", _MEMORY, **_SETTINGS))
        except NotReady as problem:
            pytest.skip(str(problem))
        pair = Pair(tmp_path, anchor)
        for broker in (pair.master, pair.slave):
            stack.callback(broker.close)
            broker.start()
        yield pair


def test_a_group_reads_on_from_the_slave_and_goes_back(pair: Pair) -> None:
    handled = Handled()
    with Admin(pair.namesrv) as admin:
        until(lambda: "broker-b" in {broker.name for broker in admin.brokers.list()}, "the master is registered")
        admin.topics.create("orders", 4, brokers=["broker-b"])
    with Producer(pair.namesrv) as producer:
        send_all(producer, "orders", NUMBERS)
        until(lambda: pair.has_all("orders", 60), "the slave has everything")
        slow = Consumer(pair.namesrv, group="billing", start_from="first", pull_batch=1, queue_messages=1, workers=1)

        @slow.handles("orders")
        def handle(message: ReceivedMessage) -> None:
            handled(message)
            if len(handled.messages) == 10:
                pair.master.kill()

        with slow:
            handled.wait(lambda so_far: set(so_far.bodies) == set(NUMBERS))
            with pytest.raises(SteelyardError):
                producer.send(Message("orders", b"nobody takes it"), timeout_s=2)
            pair.master.start()
            with Admin(pair.namesrv) as admin:
                until(
                    lambda: 0 in {b.name: b.addresses for b in admin.brokers.list()}["broker-b"], "the master is back"
                )
            until(lambda: _is_sent(producer, b"after"), "it takes messages again")
            handled.wait(lambda so_far: "after" in so_far.bodies)
            assert len(owned(slow, "orders")) == 4


def _is_sent(producer: Producer, body: bytes) -> bool:
    try:
        producer.send(Message("orders", body), timeout_s=2)
    except SteelyardError:
        return False
    return True


def test_a_pull_consumer_reads_from_the_slave_too(pair: Pair) -> None:
    with Admin(pair.namesrv) as admin:
        until(lambda: "broker-b" in {broker.name for broker in admin.brokers.list()}, "the master is registered")
        admin.topics.create("orders", 4, brokers=["broker-b"])
    with Producer(pair.namesrv) as producer:
        send_all(producer, "orders", NUMBERS)
    until(lambda: pair.has_all("orders", 60), "the slave has everything")
    with PullConsumer(
        pair.namesrv, group="report", start_from="first", pull_batch=1, queue_messages=1
    ) as pull_consumer:
        pull_consumer.assign(pull_consumer.queues("orders"))
        found = poll_all(pull_consumer, 5)
        pair.master.kill()
        found += poll_all(pull_consumer, 60 - len(found))
    assert sorted({message.body.decode() for message in found}, key=int) == NUMBERS


def test_another_name_server_is_asked_when_one_is_gone(tmp_path: Path) -> None:
    handled = Handled()
    with ExitStack() as stack:
        ours = stack.enter_context(ExitStack())
        port = ours.enter_context(our_name_server())
        try:
            broker = ApacheBroker(RELEASE, tmp_path / "store", {}, _MEMORY)
        except NotReady as problem:
            pytest.skip(str(problem))
        stack.callback(broker.close)
        both = f"127.0.0.1:{port};127.0.0.1:{broker.name_port}"
        settings = (broker.home / "broker.conf").read_text()
        (broker.home / "broker.conf").write_text(f"{settings}namesrvAddr={both}\n")
        broker.start()
        consumer = Consumer(both, group="billing", start_from="first")
        consumer.handles("orders")(handled)
        with Admin(both) as admin, Producer(both) as producer:
            until(lambda: all(each.brokers == 1 for each in admin.name_servers.list()), "both know the broker")
            admin.topics.create("orders", 4)
            with consumer:
                send_all(producer, "orders", NUMBERS[:30])
                handled.wait(30)
                ours.close()
                admin.topics.create("bills", 4)
                send_all(producer, "bills", NUMBERS)
                send_all(producer, "orders", NUMBERS[30:])
                handled.wait(60)
                problems = [each.problem for each in admin.name_servers.list()]
                assert [problem is None for problem in problems] == [False, True]
    assert sorted(handled.bodies, key=int) == NUMBERS
