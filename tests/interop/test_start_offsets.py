"""Where our groups begin on Apache's brokers: a group that wants what comes is given nothing older, also by 4.9.

Release 4.9 says of a group that never was there that it is at 0, as long as the queue has its first message.
"""

from collections.abc import Iterator

import pytest

from steelyard import Admin, Consumer, Message, Producer, PullConsumer, Queue
from tests.client.consumer_scene import Seen
from tests.interop.jars import SERVER_RELEASES, NotReady
from tests.interop.servers import apache
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=SERVER_RELEASES)
def namesrv(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a broker of each release."""
    store = tmp_path_factory.mktemp("apache") / "store"
    try:
        with apache(request.param, store, mappedFileSizeCommitLog=64 << 20) as broker:
            address = f"127.0.0.1:{broker.name_port}"
            with Admin(address) as admin:
                until(admin.brokers.list, "registering")
            yield address
    except NotReady as problem:
        pytest.skip(str(problem))


def test_a_new_group_that_wants_what_comes_gets_nothing_older(namesrv: str) -> None:
    with Admin(namesrv) as admin, Producer(namesrv) as producer:
        admin.topics.create("young", 2)
        for number in range(8):
            producer.send(Message("young", b"old %d" % number))
        consumer, seen = Consumer(namesrv, group="late-comers"), Seen()
        consumer.handles("young")(seen.record_message)
        with consumer:
            until(lambda: len([each for each in consumer.assignment if each.topic == "young"]) == 2)
            for number in range(4):
                producer.send(Message("young", b"new %d" % number))
            seen.wait(b"new %d" % number for number in range(4))
        assert sorted(seen.bodies) == [b"new %d" % number for number in range(4)]


def test_a_group_that_did_nothing_yet_goes_on_with_the_first_message_it_missed(namesrv: str) -> None:
    with Admin(namesrv) as admin, Producer(namesrv) as producer:
        admin.topics.create("empty", 1)
        consumer, seen = Consumer(namesrv, group="idlers"), Seen()
        consumer.handles("empty")(seen.record_message)
        with consumer:
            until(lambda: any(each.topic == "empty" for each in consumer.assignment))
        producer.send(Message("empty", b"missed"))
        again = Consumer(namesrv, group="idlers")
        again.handles("empty")(seen.record_message)
        with again:
            seen.wait([b"missed"])


def test_a_pull_consumer_of_named_queues_does_the_same(namesrv: str) -> None:
    with Admin(namesrv) as admin, Producer(namesrv) as producer:
        (broker,) = admin.topics.create("named", 1).brokers
        queue = Queue("named", broker, 0)
        producer.send(Message("named", b"old"))
        with PullConsumer(namesrv, group="reporters", auto_commit=False) as pull_consumer:
            pull_consumer.assign([queue])
            assert pull_consumer.committed(queue) is None
            assert pull_consumer.position(queue) == 1
            producer.send(Message("named", b"new"))
            found = pull_consumer.poll(10)
            while not found:
                found = pull_consumer.poll(10)
            assert [message.body for message in found] == [b"new"]
            pull_consumer.commit({queue: 0})
            assert pull_consumer.committed(queue) == 0
