"""What clients call themselves is text on every page that names them, whatever it would like to be."""

import pytest
from playwright.sync_api import expect

from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import RunningCluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    BrokerLatencyReport,
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import LockRequest
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Peer
from steelyard.wire.json_body import QueueRef
from tests.browser.stage import BrowserStage

_IMAGE = '<img src=x onerror="window.ran=1">'
_NAMES = (f"{_IMAGE}1", f"'\"><script>window.ran=2</script>{_IMAGE}", "javascript:window.ran=3//${window.ran=4}")
_GROUP, _TOPIC = "hostile-group", "hostile-names"
_STRANGE = "() => [document.querySelectorAll('main img, main script, main [onerror]').length, window.ran]"


def _come(cluster: RunningCluster) -> None:
    """Let clients with such names join a group, lock queues, tell of brokers, and come twice under one name."""
    for running in cluster.running_brokers:
        _come_to(running)


def _come_to(running: RunningBroker) -> None:
    broker, now_ms = running.broker, running.server.clock()
    name = broker.state.options.name
    for number, client in enumerate((*_NAMES, _NAMES[0])):
        peer = Peer.at("127.0.0.1", 40_000 + number, connection_id=1_000_000 + number)
        consumer = ConsumerHeartbeat(
            group=_GROUP,
            kind=ConsumeType.PUSH,
            model=MessageModel.CLUSTERING,
            start_from=ConsumeFromWhere.FIRST_OFFSET,
            subscriptions=(SubscriptionBody(topic=_TOPIC, expression="*", version=number),),
        )
        word = HeartbeatExtension(
            groups={_GROUP: HeartbeatGroupExtension(strategy=_IMAGE)},
            instance=f"{number}{_IMAGE}",
            heartbeat_ms=60_000,
            broker_latency=(BrokerLatencyReport(broker=_IMAGE, why=_NAMES[1], avoided_ms=60_000, failures=2, share=0),),
        )
        producer = ProducerHeartbeat(group=f"shop{_IMAGE}")
        beat = HeartbeatBody(client_id=client, consumers=(consumer,), producers=(producer,), steelyard=word)
        broker.handle(Command(RequestCode.HEART_BEAT, {}, encode_body(beat), opaque=1), peer, now_ms)
        queues = (QueueRef(broker_name=name, queue_id=number % 3, topic=_TOPIC),)
        lock = LockRequest(client_id=client, group=f"{_GROUP}%LEASE", queues=queues)
        broker.handle(Command(RequestCode.LOCK_BATCH_MQ, {}, encode_body(lock), opaque=2), peer, now_ms)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/", None),
        ("/groups", None),
        (f"/groups/{_GROUP}", _IMAGE),
        (f"/groups/{_GROUP}/plan", _IMAGE),
        (f"/groups/{_GROUP}/offsets", None),
        ("/producers", _IMAGE),
        (f"/topics/{_TOPIC}", None),
    ],
)
def test_names_of_clients_are_text_on_every_page(stage: BrowserStage, path: str, named: str | None) -> None:
    stage.send(_TOPIC, b"1", b"2", b"3", b"4")
    assert stage.cluster is not None
    stage.cluster.call(_come)
    page = stage.open(path)
    page.on("dialog", lambda dialog: stage.complaints.append(f"dialog: {dialog.message}"))
    if named is not None:
        expect(page.locator("main")).to_contain_text(named)
    else:
        expect(page.locator("main")).to_contain_text("host")
    assert page.evaluate(_STRANGE) == [0, None]
