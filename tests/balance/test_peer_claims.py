"""Owners on Apache brokers: members that do not answer are probed seldom, and at once when they probe us."""

from steelyard.balance.group.actions import ProbeOwnership
from steelyard.balance.group.claimed_queues import PeerClaims
from steelyard.balance.group.events import OwnershipProbeFailed, OwnershipReported
from steelyard.model import Queue

_SELDOM_MS = 20_000
_ME, _PEER, _BROKER = "me@sy1", "peer@sy1", "b"
_PEERS = {_PEER: _BROKER}
_HELD = frozenset({Queue("orders", _BROKER, 0)})


def _probed(owners: PeerClaims, ticket: int, now_ms: int) -> list[ProbeOwnership]:
    actions = owners.start(_PEERS, (_ME, _PEER), ticket, now_ms)
    return [action for action in actions if isinstance(action, ProbeOwnership)]


def _silent() -> PeerClaims:
    """Make a peer that reported, missed two questions, and missed one in the background."""
    owners = PeerClaims(_SELDOM_MS)
    _probed(owners, 0, 0)
    owners.reported(OwnershipReported(_BROKER, _PEER, _HELD, request_id=0), 0, 3_000)
    for ticket in (2, 4):
        assert not _probed(owners, ticket, ticket * 1_000)[0].is_background
        owners.probe_failed(OwnershipProbeFailed(_BROKER, _PEER, request_id=ticket), ticket * 1_000)
    assert _probed(owners, 6, 6_000)[0].is_background
    return owners


def test_who_does_not_answer_is_asked_again_only_after_a_while() -> None:
    owners = _silent()
    owners.probe_failed(OwnershipProbeFailed(_BROKER, _PEER, request_id=6), 16_000)
    assert not _probed(owners, 8, 25_999)
    assert _probed(owners, 10, 26_000)[0].is_background


def test_who_does_not_answer_and_asks_us_something_is_asked_at_once() -> None:
    owners = _silent()
    assert not owners.is_responsive_again(_PEER, 7_000), "its answer is still awaited"
    owners.probe_failed(OwnershipProbeFailed(_BROKER, _PEER, request_id=6), 16_000)
    assert owners.is_responsive_again(_PEER, 17_000)
    assert _probed(owners, 8, 17_000)[0].is_background
    _, is_news = owners.reported(OwnershipReported(_BROKER, _PEER, _HELD, request_id=8), 17_001, 3_000)
    assert is_news
    assert not owners.is_responsive_again(_PEER, 17_002), "it answers"


def test_who_answers_is_not_asked_for_each_of_its_questions() -> None:
    owners = PeerClaims(_SELDOM_MS)
    _probed(owners, 0, 0)
    owners.reported(OwnershipReported(_BROKER, _PEER, _HELD, request_id=0), 0, 3_000)
    assert not owners.is_responsive_again(_PEER, 1)
    assert not owners.is_responsive_again("stranger@sy1", 1)
