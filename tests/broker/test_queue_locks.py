"""41, 42 as Java's members use them: a lock is a minute from the last call, owned by an id."""

import pytest

from steelyard.broker.queue_locks import QueueLockTable
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.queue_assignment import LockExtension, LockRequest, LockResponse
from steelyard.wire.codes import RequestCode as Code
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, ref

MINUTE_MS = 60_000


def java(harness: BrokerHarness, client_id: str, *, registered: bool = True) -> FakeConsumer:
    """Make a Java member, registered or not."""
    client = FakeConsumer(harness, client_id, ours=False)
    if registered:
        client.heartbeat()
    return client


def test_a_queue_is_locked_by_one_and_the_answer_is_javas() -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1"), java(harness, "c2")
    answer = first.request_locks(Code.LOCK_BATCH_MQ, (0, 1))
    assert (
        answer.body == b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"},'
        b'{"brokerName":"broker-0","queueId":1,"topic":"orders"}]}'
    )
    assert second.lock(0, 1, 2) == {2: 0}
    assert second.request_locks(Code.LOCK_BATCH_MQ, (0,)).body == b'{"lockOKMQSet":[]}'


@pytest.mark.parametrize("registered", [True, False])
def test_a_lock_lives_a_minute_from_the_last_call(*, registered: bool) -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1", registered=registered), java(harness, "c2", registered=registered)
    first.lock(0)
    harness.advance(MINUTE_MS - 1, step_ms=20_000)
    assert second.lock(0) == {}
    assert first.lock(0) == {0: 0}
    harness.advance(MINUTE_MS - 1, step_ms=20_000)
    assert second.lock(0) == {}
    harness.advance(1)
    assert second.lock(0) == {0: 0}


def test_only_its_owner_unlocks_and_another_member_is_answered_with_success() -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1"), java(harness, "c2")
    first.lock(0)
    assert second.unlock(0).code == 0
    assert second.lock(0) == {}
    assert first.unlock(0).code == 0
    assert second.lock(0) == {0: 0}


def test_groups_and_topics_lock_apart() -> None:
    harness = BrokerHarness()
    first, other = java(harness, "c1"), FakeConsumer(harness, "c2", ours=False, group="other")
    other.heartbeat()
    assert first.lock(0) == {0: 0}
    assert other.lock(0) == {0: 0}
    assert java(harness, "c3").lock(0, topic="refunds") == {0: 0}


def test_queues_of_another_broker_are_not_locked_here() -> None:
    harness = BrokerHarness()
    body = LockRequest(
        client_id="c1", group=GROUP, queues=(ref(0, broker="broker-9"), ref(-1), ref(1)), steelyard=LockExtension()
    )
    reported = decode_body(LockResponse, harness.request(Code.LOCK_BATCH_MQ, body=encode_body(body)).body)
    assert reported.granted == (ref(1),)
    assert reported.steelyard is not None
    assert len(reported.steelyard.denied or ()) == 2


def test_a_registered_connection_locks_and_unlocks_under_its_own_id_alone() -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1"), java(harness, "c2")
    first.lock(0)
    for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
        answer = second.request_locks(code, (0,), owner="c1")
        assert answer.code == 16
        assert "c2" in (answer.remark or "")
    assert harness.state.queue_locks.holder(GROUP, "orders", 0, harness.now_ms) is not None


def test_a_dead_java_member_keeps_its_locks_half_a_minute_from_its_last_call() -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1"), java(harness, "c2")
    first.lock(0)
    harness.advance(10_000, step_ms=500)
    first.close()
    harness.advance(19_999, step_ms=500)
    assert second.lock(0) == {}
    harness.advance(1)
    assert second.lock(0) == {0: 0}


def test_an_unregistration_frees_all_locks() -> None:
    harness = BrokerHarness()
    first, second = java(harness, "c1"), java(harness, "c2")
    first.lock(0, 1)
    first.unregister()
    assert second.lock(0, 1) == {0: 0, 1: 0}


def test_an_unlock_is_often_oneway() -> None:
    harness = BrokerHarness()
    first = java(harness, "c1")
    first.lock(0)
    body = encode_body(LockRequest(client_id="c1", group=GROUP, queues=(ref(0),)))
    harness.send(Code.UNLOCK_BATCH_MQ, body=body, peer=first.connection, oneway=True)
    assert harness.state.queue_locks.holder(GROUP, "orders", 0, harness.now_ms) is None


def test_what_cannot_be_is_refused() -> None:
    harness = BrokerHarness()
    for body in (
        LockRequest(client_id="", group=GROUP),
        LockRequest(client_id="x" * 256, group=GROUP),
        LockRequest(client_id="c", group="g" * 200),
        LockRequest(client_id="c", group=GROUP, queues=(ref(0, topic="../x"),)),
        LockRequest(client_id="c", group=GROUP, queues=(ref(0),), steelyard=LockExtension(epochs=(1, 2))),
    ):
        assert harness.request(Code.LOCK_BATCH_MQ, body=encode_body(body)).code == 29
    assert harness.request(Code.LOCK_BATCH_MQ, body=b"{").code == 1


def test_locks_that_are_over_take_no_memory() -> None:
    locks = QueueLockTable(0, 0, ())
    for number in range(100):
        locks.acquire("g", ("t", number), f"c{number}", 0, until_ms=10, is_lease=False)
    locks.expire(10)
    assert list(locks.held_queues("g", 0)) == []
    assert not locks.__dict__["_groups"]
    assert not locks.__dict__["_owned"]
