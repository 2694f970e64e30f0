"""Trouble strikes as often as it was told to, and never by chance."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from steelyard.net.server import Replies
from steelyard.testing.clock import AdvanceableClock
from steelyard.testing.request_faults import RequestFault, RequestFaultKind, RequestFaults
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Peer, Reply
from steelyard.wire.headers.send import SendMessageV2

_PEER = Peer.at("127.0.0.1", 50_123, connection_id=1)
_SEND = Command(
    RequestCode.SEND_MESSAGE_V2,
    SendMessageV2("shop", "orders", "TBW102", 4, 0, 0, 0, 0, "", 0, False),
    b"{}",
    opaque=7,
)


class _Core:
    """Remembers what reached it, and answers nothing."""

    def __init__(self) -> None:
        self.taken: list[Command] = []

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        del peer, now_ms
        self.taken.append(command)
        return ()


@given(st.fractions(Fraction(1, 50), 1), st.integers(1, 300), st.none() | st.integers(1, 20))
def test_a_share_of_many_requests_is_that_share_of_them(share: Fraction, requests: int, most: int | None) -> None:
    trouble = RequestFault(RequestFaultKind.DROP_ACK, share=float(share), remaining=most)
    for _ in range(requests):
        trouble.applies()
    due = int(share * requests)
    assert trouble.hits == (due if most is None else min(due, most))


@given(
    st.sets(st.sampled_from(RequestFaultKind)),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, "orders", "x"]),
)
def test_a_send_is_stored_once_unless_trouble_says_otherwise(
    kinds: set[RequestFaultKind], broker: str | None, topic: str | None
) -> None:
    troubles, core = RequestFaults(), _Core()
    for kind in kinds:
        troubles.add(RequestFault(kind, broker, topic))
    replies = troubles.handle("a", core.handle, _SEND, _PEER, 0)
    met = kinds if broker in (None, "a") and topic in (None, "orders") else set()
    if RequestFaultKind.REFUSE_SEND in met:
        assert core.taken == []
        assert [each.command.code for each in replies if isinstance(each, Reply)] == [2]
        return
    assert not replies
    assert len(core.taken) == 1 + (RequestFaultKind.DUPLICATE in met)
    assert core.taken[0].is_oneway == (RequestFaultKind.DROP_ACK in met)
    assert all(each.is_oneway for each in core.taken[1:])


def test_a_trouble_that_is_taken_away_strikes_no_more() -> None:
    troubles, core = RequestFaults(), _Core()
    first, second = RequestFault(RequestFaultKind.DROP_ACK), RequestFault(RequestFaultKind.DUPLICATE)
    for trouble in (first, second):
        troubles.add(trouble)
    troubles.remove(first)
    troubles.remove(first)
    troubles.handle("a", core.handle, _SEND, _PEER, 0)
    troubles.clear()
    troubles.handle("a", core.handle, _SEND, _PEER, 0)
    assert (first.hits, second.hits, len(core.taken)) == (0, 1, 3)


@given(st.lists(st.integers(0, 10**9)))
def test_a_clock_is_ahead_by_all_that_it_was_put_forward(steps_ms: list[int]) -> None:
    clock = AdvanceableClock()
    before_ms = clock()
    for step_ms in steps_ms:
        clock.advance(step_ms)
    assert clock() >= before_ms + sum(steps_ms)
