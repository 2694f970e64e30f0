"""What administrators ask of a live consumer through a broker: how it is, how far it is, go elsewhere, handle this."""

import logging
from collections.abc import Iterator

import pytest

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumeDirectlyOutcome, ConsumeDirectlyResult, ConsumerRunningState
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import ConsumeMessageDirectly, GetConsumerRunningState, GroupTopicRequest
from tests.client.consumer_scene import Seen, fill, make_topic, put
from tests.serve.raw_connection import RawConnection
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


def _ask(cluster: Cluster, code: int, header: object) -> Command:
    assert isinstance(header, GetConsumerRunningState | GroupTopicRequest | ConsumeMessageDirectly)
    with RawConnection(cluster.brokers["broker-0"]) as connection:
        return connection.request(code, header)


def test_a_consumer_reports_how_it_is(cluster: Cluster) -> None:
    make_topic(cluster, "told")
    bodies, seen = fill(cluster, "told", 40), Seen()
    consumer = Consumer(cluster.namesrv, group="told-group", start_from="first", workers=3)
    consumer.handles("told")(seen.record_message)
    with consumer:
        seen.wait(bodies)
        header = GetConsumerRunningState("told-group", consumer.id, jstack_enable=True)
        states: list[ConsumerRunningState] = []

        def is_settled() -> bool:
            states.append(state := _state(cluster, header))
            return _commits(state) == [10] * 4 and _owned(state) > set()

        until(is_settled, "committing, and owning all it holds")
    state = states[-1]
    assert state.properties["PROP_THREADPOOL_CORE_SIZE"] == "3"
    assert state.properties["PROP_NAMESERVER_ADDR"] == cluster.namesrv
    assert state.topics["told"].handled_tps > 0
    assert "test_consumer_admin_requests" in (state.thread_dump or "")
    assert [each.topic for each in state.subscriptions] == ["told", "%RETRY%told-group"]


def _state(cluster: Cluster, header: GetConsumerRunningState) -> ConsumerRunningState:
    return decode_body(ConsumerRunningState, _ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, header).body)


def _owned(state: ConsumerRunningState) -> set[Queue]:
    """Return what is held, once all of it is owned, and it tells since when."""
    assert state.steelyard is not None
    held, owned_ms = state.steelyard.held or (), state.steelyard.owned_ms or ()
    return set(held) if all(since_ms >= 0 for _, since_ms in zip(held, owned_ms, strict=True)) else set()


def _commits(state: ConsumerRunningState) -> list[int]:
    return [each.commit_offset for queue, each in sorted(state.queues.items()) if queue.topic == "told"]


def test_a_consumer_reports_how_far_it_is(cluster: Cluster) -> None:
    make_topic(cluster, "far", queues=2)
    bodies, seen = fill(cluster, "far", 20, queues=2), Seen()
    consumer = Consumer(cluster.namesrv, group="far-group", start_from="first")
    consumer.handles("far")(seen.record_message)
    with consumer:
        seen.wait(bodies)
        wanted = {Queue("far", "broker-0", 0): 10, Queue("far", "broker-0", 1): 10}
        until(lambda: _how_far(cluster, "far", consumer.id) == wanted, "being done")


def _how_far(cluster: Cluster, topic: str, member: str) -> dict[Queue, int]:
    header = GroupTopicRequest(group=f"{topic}-group", topic=topic)
    answer = _ask(cluster, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    return dict((decode_body(MemberOffsets, answer.body).members or {}).get(member, {}))


def test_a_consumer_goes_where_an_administrator_sends_it(cluster: Cluster) -> None:
    make_topic(cluster, "again", queues=2)
    bodies, seen = fill(cluster, "again", 20, queues=2), Seen()
    consumer = Consumer(cluster.namesrv, group="again-group", start_from="first")
    consumer.handles("again")(seen.record_message)
    with consumer, Admin(cluster.namesrv) as admin:
        seen.wait(bodies)
        until(
            lambda: sum(each.committed or 0 for each in admin.offsets.list("again-group", "again")) == 20, "committing"
        )
        admin.offsets.reset("again-group", "again", "first")
        until(lambda: seen.counts() == dict.fromkeys(bodies, 2), "handling all again")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"fine", ConsumeDirectlyOutcome.SUCCESS),
        (b"later", ConsumeDirectlyOutcome.LATER),
        (b"bad", ConsumeDirectlyOutcome.RAISED),
    ],
)
def test_a_consumer_handles_one_message_on_demand_and_reports_the_result(
    cluster: Cluster, body: bytes, outcome: ConsumeDirectlyOutcome, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "steelyard")  # a log with half a character in it is more than pytest can pass on
    topic = f"direct-{body.decode()}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [body])
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from="last")

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        if body == b"later":
            message.later()
        if body == b"bad":
            raise ValueError("no good \udcff")  # a text that cannot be sent as it is

    with consumer, Admin(cluster.namesrv) as admin:
        until(lambda: consumer.assignment, "owning the queue")
        message_id = admin.messages.list(topic)[0].offset_id
        header = ConsumeMessageDirectly(
            consumer_group=f"{topic}-group", client_id=consumer.id, msg_id=message_id, topic=topic
        )
        answer = _ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        assert answer.code == 0, answer.remark
        result = decode_body(ConsumeDirectlyResult, answer.body)
    assert result.outcome is outcome
    assert seen.bodies == [body]
    assert ("no good" in (result.remark or "")) == (body == b"bad")
