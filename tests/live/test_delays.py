"""A delayed message comes when it is due and not before; a server that knows eighteen delays takes the next longer one.

Apache's servers since 5.0 keep times by the second, and may be up to one early.
"""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from steelyard import Message, Producer, PullConsumer, StoredMessage
from steelyard.errors import ConfigurationError, SteelyardError
from tests.live.clusters import Live
from tests.live.handled import poll_all

EARLY_MS = 1_000


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


def pulled(cluster: Live, group: str, topic: str, count: int) -> list[StoredMessage]:
    """Wait for so many messages of a topic."""
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.assign(consumer.queues(topic))
        return poll_all(consumer, count, cluster.pass_time)


def early_ms(cluster: Live) -> int:
    """Return how much sooner than asked for a message may come."""
    return 0 if cluster.is_ours or cluster.is_4 else EARLY_MS


@pytest.mark.parametrize("delay_s", [1, 1.5])
def test_a_delayed_message_comes_no_sooner_than_asked_for(
    cluster: Live, producer: Producer, topic: str, group: str, delay_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "steelyard"):
        for _ in range(2):
            producer.send(Message(topic, b"later", tags="t"), delay_s=delay_s)
    producer.send(Message(topic, b"now"))
    found = pulled(cluster, group, topic, 3)
    assert [message.body for message in sorted(found, key=lambda each: each.stored_ms)] == [b"now", b"later", b"later"]
    late = [message for message in found if message.body == b"later"]
    assert all(each.stored_ms - each.born_ms >= delay_s * 1000 - early_ms(cluster) for each in late)
    assert all(each.tags == "t" for each in late)
    rounded_up = [record.getMessage() for record in caplog.records if "delay" in record.getMessage()]
    if cluster.is_4 and delay_s == 1.5:
        assert len(rounded_up) == 1, "it is said once that 5 s were taken for 1.5 s"
        assert all(each.stored_ms - each.born_ms >= 5_000 for each in late)
    else:
        assert not rounded_up


def test_a_message_may_be_due_at_a_moment(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    due = datetime.now(UTC) + timedelta(seconds=2)
    producer.send(Message(topic, b"later"), deliver_at=due)
    past = producer.submit(Message(topic, b"past"), deliver_at=due - timedelta(hours=1))
    past.result(30)
    found = {message.body: message for message in pulled(cluster, group, topic, 2)}
    assert found[b"later"].stored_at >= due - timedelta(milliseconds=early_ms(cluster))
    assert found[b"past"].stored_at < found[b"later"].stored_at


def test_a_delay_that_cannot_be_is_refused_in_words(cluster: Live, producer: Producer, topic: str) -> None:
    with pytest.raises(ConfigurationError):
        producer.send(Message(topic, b"x"), delay_s=-1)
    with pytest.raises(ConfigurationError):
        producer.send(Message(topic, b"x"), delay_s=1, deliver_at=datetime.now(UTC))
    three_hours = 3 * 3600
    if cluster.is_4:
        with pytest.raises(SteelyardError, match=r"10800 s is more .* wait at most 7200 s"):
            producer.send(Message(topic, b"x"), delay_s=three_hours)
    else:
        producer.send(Message(topic, b"x"), delay_s=three_hours)
