"""Every member of a broadcasting group gets every message, and goes on where it was after a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.consumer import Consumer
from steelyard.errors import ConfigurationError
from steelyard.model.finding import Finding
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen, fill, make_topic, put
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


def _member(cluster: Cluster, topic: str, name: str, directory: Path, seen: Seen) -> Consumer:
    consumer = Consumer(
        cluster.namesrv,
        group=f"{topic}-group",
        mode="broadcast",
        name=name,
        offsets_dir=directory,
        start_from="first",
    )
    consumer.handles(topic)(seen.record_message)
    return consumer


def test_each_member_gets_everything(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "news")
    bodies, one, two = fill(cluster, "news", 40), Seen(), Seen()
    with _member(cluster, "news", "one", tmp_path, one), _member(cluster, "news", "two", tmp_path, two):
        one.wait(bodies)
        two.wait(bodies)
    assert one.counts() == two.counts() == dict.fromkeys(bodies, 1)


def test_a_restarted_member_goes_on_where_it_was(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "serial")
    first, second = Seen(), Seen()
    bodies = fill(cluster, "serial", 30)
    with _member(cluster, "serial", "one", tmp_path, first):
        first.wait(bodies)
    put(cluster, "serial", 0, [b"next"])
    with _member(cluster, "serial", "one", tmp_path, second):
        second.wait([b"next"])
    assert second.bodies == [b"next"]


def test_two_members_cannot_keep_their_offsets_in_one_file(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "twins")
    with _member(cluster, "twins", "same", tmp_path, Seen()):
        other = _member(cluster, "twins", "same", tmp_path, Seen())
        with pytest.raises(ConfigurationError, match="give each member on this machine a name of its own"):
            other.start()


def test_a_message_that_fails_is_dropped_and_that_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    make_topic(cluster, "dropped", queues=1)
    put(cluster, "dropped", 0, [b"bad", b"good"])
    seen, findings = Seen(), list[Finding]()
    consumer = Consumer(
        cluster.namesrv, group="dropped-group", mode="broadcast", offsets_dir=tmp_path, start_from="first"
    )
    consumer.on_warning(findings.append)

    @consumer.handles("dropped")
    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        if message.body == b"bad":
            raise ValueError("bad")

    with consumer:
        seen.wait([b"good"])
        until(lambda: [finding for finding in findings if finding.kind == "dropped"], "hearing of it")
    assert sorted(seen.bodies) == [b"bad", b"good"]
