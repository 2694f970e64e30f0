"""Locks of our members: they live and die with the membership, each with an epoch that only grows."""

from tests.broker.client import GROUP, Client
from tests.broker.desk import Desk

from steelyard.broker.options import BrokerOptions
from steelyard.broker.timing import first_epoch
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.locks import Denied, LockAnswer
from steelyard.wire.codes import RequestCode as Code

OPTIONS = BrokerOptions()


def pair(desk: Desk) -> tuple[Client, Client]:
    """Let two members of ours join."""
    clients = Client(desk, "c1"), Client(desk, "c2")
    for client in clients:
        client.beat()
    return clients


def test_a_lease_lives_as_long_as_its_member_beats() -> None:
    desk = Desk()
    first, second = pair(desk)
    held = first.lock(0)
    for _ in range(60):
        desk.advance(3_000, step_ms=500)
        first.beat()
        second.beat()
    assert second.lock(0) == {}
    assert first.renew(held) == held


def test_who_is_denied_is_told_the_holder() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0)
    told = decode_body(LockAnswer, second.locking(Code.LOCK_BATCH_MQ, (0, 1)).body).steelyard
    assert told is not None
    assert told.denied == (Denied("orders", 0, "c1"),)
    assert len(told.epochs or ()) == 1


def test_a_closed_line_frees_leases_after_the_grace() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0)
    first.close()
    desk.advance(OPTIONS.line_grace_ms - 1)
    assert second.lock(0) == {}
    desk.advance(1)
    assert set(second.lock(0)) == {0}


def test_what_is_handled_in_order_is_free_only_after_its_handlers_had_time_to_end() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0, lease=False)
    first.close()
    gone_ms = OPTIONS.line_grace_ms
    desk.advance(gone_ms + OPTIONS.order_grace_ms - 1)
    assert second.lock(0, lease=False) == {}
    desk.advance(1)
    assert set(second.lock(0, lease=False)) == {0}


def test_a_member_that_is_back_within_the_order_grace_still_holds_its_queue() -> None:
    desk = Desk()
    first, second = pair(desk)
    held = first.lock(0, lease=False)
    first.close()
    desk.advance(OPTIONS.line_grace_ms + 500)
    first.reconnect()
    assert first.renew(held, lease=False) == held
    desk.advance(5_000)
    assert second.lock(0, lease=False) == {}


def test_both_names_lock_the_same_queue() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0, lease=True)
    assert second.lock(0, lease=False) == {}
    assert Client(desk, "java", ours=False).lock(0) == {}
    assert desk.state.locks.holder(GROUP, "orders", 0, desk.now_ms) is not None


def test_silence_frees_leases() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0)
    for _ in range(5):
        desk.advance(2_500)
        second.beat()
    assert set(second.lock(0)) == {0}


def test_an_owner_keeps_its_epoch_and_a_new_owner_gets_a_higher_one() -> None:
    desk = Desk()
    first, second = pair(desk)
    held = first.lock(0)
    assert first.lock(0) == held
    first.unlock(0, epochs=(held[0],))
    later = second.lock(0)
    assert later[0] > held[0]
    assert first_epoch(desk.state.started_ms) < held[0] < first_epoch(desk.state.started_ms + 1)


def test_a_renewal_does_not_acquire() -> None:
    desk = Desk()
    first, second = pair(desk)
    assert first.renew({0: 17}) == {}
    held = first.lock(0)
    assert first.renew({0: held[0] - 1}) == {}
    first.close()
    desk.advance(1_000)
    first.reconnect()
    assert first.renew(held) == {}
    assert set(second.lock(0)) == {0}


def test_a_late_unlock_of_a_dead_line_does_not_free_the_new_lease() -> None:
    desk = Desk()
    client, other = pair(desk)
    old_line, old = client.line, client.lock(0)
    client.unlock(0)
    client.reconnect()
    new = client.lock(0)
    assert client.unlock(0, line=old_line).code == 16
    assert client.unlock(0, epochs=(old[0],)).code == 0
    assert other.lock(0) == {}
    assert client.renew(new) == new


def test_a_late_lock_of_a_dead_line_takes_nothing() -> None:
    desk = Desk()
    client, other = pair(desk)
    old_line = client.line
    client.reconnect()
    assert client.locking(Code.LOCK_BATCH_MQ, (0,), line=old_line).code == 16
    assert set(other.lock(0)) == {0}


def test_a_bumped_epoch_lets_the_owner_ask_again() -> None:
    desk = Desk()
    first, second = pair(desk)
    held = first.lock(0)
    desk.state.locks.bump(GROUP, "orders", 0)
    assert first.renew(held) == {}
    assert second.lock(0) == {}
    assert first.lock(0)[0] > held[0]
    desk.state.locks.bump(GROUP, "orders", 9)


def test_a_goodbye_frees_everything_at_once() -> None:
    desk = Desk()
    first, second = pair(desk)
    first.lock(0, lease=False)
    first.lock(1)
    first.leave()
    assert set(second.lock(0, 1)) == {0, 1}
