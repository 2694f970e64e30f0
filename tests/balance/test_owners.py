"""Who has what on Apache's brokers: members that do not answer are asked seldom, and at once when they speak."""

from steelyard.balance.actions import AskHolders
from steelyard.balance.events import HoldersFailed, HoldersSeen
from steelyard.balance.owners import Owners
from steelyard.model import Queue

_SELDOM_MS = 20_000
_ME, _PEER, _BROKER = "me@sy1", "peer@sy1", "b"
_PEERS = {_PEER: _BROKER}
_HELD = frozenset({Queue("orders", _BROKER, 0)})


def _asked(owners: Owners, ticket: int, now_ms: int) -> list[AskHolders]:
    actions = owners.begin(_PEERS, (_ME, _PEER), ticket, now_ms)
    return [action for action in actions if isinstance(action, AskHolders)]


def _silent() -> Owners:
    """Make a peer that reported, missed two questions, and missed one in the background."""
    owners = Owners(_SELDOM_MS)
    _asked(owners, 0, 0)
    owners.seen(HoldersSeen(_BROKER, _PEER, _HELD, ticket=0), 0, 3_000)
    for ticket in (2, 4):
        assert not _asked(owners, ticket, ticket * 1_000)[0].is_patient
        owners.failed(HoldersFailed(_BROKER, _PEER, ticket=ticket), ticket * 1_000)
    assert _asked(owners, 6, 6_000)[0].is_patient
    return owners


def test_who_does_not_answer_is_asked_again_only_after_a_while() -> None:
    owners = _silent()
    owners.failed(HoldersFailed(_BROKER, _PEER, ticket=6), 16_000)
    assert not _asked(owners, 8, 25_999)
    assert _asked(owners, 10, 26_000)[0].is_patient


def test_who_does_not_answer_and_asks_us_something_is_asked_at_once() -> None:
    owners = _silent()
    assert not owners.is_back(_PEER, 7_000), "its answer is still awaited"
    owners.failed(HoldersFailed(_BROKER, _PEER, ticket=6), 16_000)
    assert owners.is_back(_PEER, 17_000)
    assert _asked(owners, 8, 17_000)[0].is_patient
    _, is_news = owners.seen(HoldersSeen(_BROKER, _PEER, _HELD, ticket=8), 17_001, 3_000)
    assert is_news
    assert not owners.is_back(_PEER, 17_002), "it answers"


def test_who_answers_is_not_asked_for_each_of_its_questions() -> None:
    owners = Owners(_SELDOM_MS)
    _asked(owners, 0, 0)
    owners.seen(HoldersSeen(_BROKER, _PEER, _HELD, ticket=0), 0, 3_000)
    assert not owners.is_back(_PEER, 1)
    assert not owners.is_back("stranger@sy1", 1)
