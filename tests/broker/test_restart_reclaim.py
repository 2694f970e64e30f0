"""After a restart: former holders of a queue reclaim it; no other member gets one until the broker has settled."""

from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.broker.timing import first_epoch
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import FakeConsumer, group_view

SETTLE_MS = BrokerOptions().settle_ms


def started(clients: int = 2, *, restart: bool = True) -> tuple[BrokerHarness, list[FakeConsumer]]:
    """Let members join, hold queues 0, 1, … one each, and the broker start again."""
    harness = BrokerHarness()
    topic = structs.replace(
        harness.state.topics.get_or_create("seed", 1, harness.now_ms).settings, name="orders", read_queues=4
    )
    harness.state.topics.put(topic, harness.now_ms)
    found = [FakeConsumer(harness, f"c{number}") for number in range(clients)]
    for client in found:
        client.heartbeat()
    if restart:
        harness.advance(1_000)
        harness.restart()
    return harness, found


def test_a_new_group_does_not_wait() -> None:
    harness, (first, _) = started(restart=False)
    assert group_view(harness).settled
    assert set(first.lock(0)) == {0}


def test_a_restarted_broker_gives_everything_to_the_first_client_only_once_it_has_settled() -> None:
    harness, (first, second) = started()
    first.reconnect()
    assert not group_view(harness).settled
    assert first.lock(0, 1, 2, 3) == {}
    harness.advance(SETTLE_MS)
    assert group_view(harness).settled
    assert set(first.lock(0, 1, 2, 3)) == {0, 1, 2, 3}
    second.reconnect()
    assert second.lock(0) == {}


def test_who_held_a_queue_goes_on_under_the_same_epoch() -> None:
    harness, (first, second) = started(restart=False)
    held, other = first.lock(0), second.lock(1)
    harness.advance(1_000)
    harness.restart()
    first.reconnect(held={"orders": held.items()})
    assert second.reconnect().code == 0
    assert second.lock(0, 1, 2) == {}
    assert first.renew(held) == held
    assert first.lock(1) == {}
    second.reconnect(held={"orders": other.items()})
    assert second.renew(other) == other
    harness.advance(SETTLE_MS)
    assert second.lock(0) == {}
    (fresh,) = second.lock(2).values()
    assert fresh > max(held[0], other[1])


def test_of_two_that_claim_a_queue_the_higher_epoch_was_the_later() -> None:
    _, (first, second) = started()
    first.reconnect(held={"orders": [(0, 17)]})
    assert first.renew({0: 17}) == {0: 17}
    second.reconnect(held={"orders": [(0, 18)]})
    assert first.renew({0: 17}) == {}
    assert second.renew({0: 18}) == {0: 18}
    first.reconnect(held={"orders": [(0, 17)]})
    assert second.renew({0: 18}) == {0: 18}


def test_a_claim_counts_only_while_settling() -> None:
    harness, (first, second) = started()
    harness.advance(SETTLE_MS)
    first.reconnect(held={"orders": [(0, 17)]})
    assert first.renew({0: 17}) == {}
    second.reconnect()
    assert set(second.lock(0)) == {0}


def test_a_claim_dies_with_its_member() -> None:
    harness, (first, second) = started()
    first.reconnect(held={"orders": [(0, 17)]})
    first.renew({0: 17})
    first.close()
    harness.advance(SETTLE_MS)
    second.reconnect()
    assert set(second.lock(0)) == {0}


def test_claims_that_cannot_be_true_are_passed_over() -> None:
    harness, (first, _) = started()
    now_epoch = first_epoch(harness.now_ms)
    claims = {"orders": [(0, 0), (1, -5), (2, now_epoch * 2), (4, 17), (-1, 17)], "no-topic": [(0, 17)]}
    assert first.reconnect(held=claims).code == 0
    assert list(harness.state.queue_locks.held_queues(first.group, harness.now_ms)) == []


def test_epochs_grow_over_a_restart_within_the_same_second() -> None:
    harness, (first, second) = started(restart=False)
    (before,) = first.lock(0).values()
    harness.now_ms += 3
    harness.restart()
    harness.advance(SETTLE_MS)
    second.reconnect()
    (after,) = second.lock(0).values()
    assert after > before


def test_epochs_grow_although_the_clock_was_set_back() -> None:
    harness, (first, second) = started(restart=False)
    held = first.lock(0)
    harness.now_ms -= 3_600_000
    harness.restart()
    first.reconnect(held={"orders": held.items()})
    assert first.renew(held) == held
    harness.advance(SETTLE_MS)
    second.reconnect()
    (later,) = second.lock(1).values()
    assert later > held[0]


def test_javas_wait_too() -> None:
    harness, _ = started()
    java = FakeConsumer(harness, "java", ours=False)
    java.heartbeat()
    assert java.lock(0) == {}
    harness.advance(SETTLE_MS)
    assert java.lock(0) == {0: 0}
