"""Locks of our members: they live and die with the membership, each with an epoch that only grows."""

from steelyard.broker.options import BrokerOptions
from steelyard.broker.timing import first_epoch
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.queue_assignment import DeniedLock, LockResponse
from steelyard.wire.codes import RequestCode as Code
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer

OPTIONS = BrokerOptions()


def pair(harness: BrokerHarness) -> tuple[FakeConsumer, FakeConsumer]:
    """Let two members of ours join."""
    clients = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    for client in clients:
        client.heartbeat()
    return clients


def test_a_lease_lives_as_long_as_its_member_beats() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    held = first.lock(0)
    for _ in range(60):
        harness.advance(3_000, step_ms=500)
        first.heartbeat()
        second.heartbeat()
    assert second.lock(0) == {}
    assert first.renew(held) == held


def test_who_is_denied_is_told_the_holder() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0)
    reported = decode_body(LockResponse, second.request_locks(Code.LOCK_BATCH_MQ, (0, 1)).body).steelyard
    assert reported is not None
    assert reported.denied == (DeniedLock("orders", 0, "c1"),)
    assert len(reported.epochs or ()) == 1


def test_a_closed_connection_frees_leases_after_the_grace() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0)
    first.close()
    harness.advance(OPTIONS.connection_grace_ms - 1)
    assert second.lock(0) == {}
    harness.advance(1)
    assert set(second.lock(0)) == {0}


def test_what_is_handled_in_order_is_free_only_after_its_handlers_had_time_to_end() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0, lease=False)
    first.close()
    gone_ms = OPTIONS.connection_grace_ms
    harness.advance(gone_ms + OPTIONS.order_grace_ms - 1)
    assert second.lock(0, lease=False) == {}
    harness.advance(1)
    assert set(second.lock(0, lease=False)) == {0}


def test_a_member_that_is_back_within_the_order_grace_still_holds_its_queue() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    held = first.lock(0, lease=False)
    first.close()
    harness.advance(OPTIONS.connection_grace_ms + 500)
    first.reconnect()
    assert first.renew(held, lease=False) == held
    harness.advance(5_000)
    assert second.lock(0, lease=False) == {}


def test_both_names_lock_the_same_queue() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0, lease=True)
    assert second.lock(0, lease=False) == {}
    assert FakeConsumer(harness, "java", ours=False).lock(0) == {}
    assert harness.state.queue_locks.holder(GROUP, "orders", 0, harness.now_ms) is not None


def test_silence_frees_leases() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0)
    for _ in range(5):
        harness.advance(2_500)
        second.heartbeat()
    assert set(second.lock(0)) == {0}


def test_an_owner_keeps_its_epoch_and_a_new_owner_gets_a_higher_one() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    held = first.lock(0)
    assert first.lock(0) == held
    first.unlock(0, epochs=(held[0],))
    later = second.lock(0)
    assert later[0] > held[0]
    assert first_epoch(harness.state.started_ms) < held[0] < first_epoch(harness.state.started_ms + 1)


def test_a_renewal_does_not_acquire() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    assert first.renew({0: 17}) == {}
    held = first.lock(0)
    assert first.renew({0: held[0] - 1}) == {}
    first.close()
    harness.advance(1_000)
    first.reconnect()
    assert first.renew(held) == {}
    assert set(second.lock(0)) == {0}


def test_a_late_unlock_of_a_dead_connection_does_not_free_the_new_lease() -> None:
    harness = BrokerHarness()
    client, other = pair(harness)
    old_peer, old = client.connection, client.lock(0)
    client.unlock(0)
    client.reconnect()
    new = client.lock(0)
    assert client.unlock(0, connection=old_peer).code == 16
    assert client.unlock(0, epochs=(old[0],)).code == 0
    assert other.lock(0) == {}
    assert client.renew(new) == new


def test_a_late_lock_of_a_dead_connection_takes_nothing() -> None:
    harness = BrokerHarness()
    client, other = pair(harness)
    old_peer = client.connection
    client.reconnect()
    assert client.request_locks(Code.LOCK_BATCH_MQ, (0,), connection=old_peer).code == 16
    assert set(other.lock(0)) == {0}


def test_a_bumped_epoch_lets_the_owner_ask_again() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    held = first.lock(0)
    harness.state.queue_locks.advance_epoch(GROUP, "orders", 0)
    assert first.renew(held) == {}
    assert second.lock(0) == {}
    assert first.lock(0)[0] > held[0]
    harness.state.queue_locks.advance_epoch(GROUP, "orders", 9)


def test_an_unregistration_frees_everything_at_once() -> None:
    harness = BrokerHarness()
    first, second = pair(harness)
    first.lock(0, lease=False)
    first.lock(1)
    first.unregister()
    assert set(second.lock(0, 1)) == {0, 1}
