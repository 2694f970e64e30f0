"""The key index follows the log a little with each tick, so that nobody has to wait for it long, and sends never do.

Feeding it costs about as much as taking a message in. So it is not fed as messages come: a little always, more when
somebody asks by key. A question that comes while it is far behind waits for it, and the loop stands still for nobody.
Once it has caught up, the same is done for the index that an Apache broker would want (store/apache_keys.py).
"""

from collections.abc import Sequence

from msgspec import structs

from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["forget", "may_look_now", "tick"]

_USUAL = 200
"""Records fed with each tick: a few per cent of a busy broker's time."""
_WANTED = 4_000
"""Records fed at once when somebody waits."""
_MOST_QUESTIONS = 1_000


def may_look_now(state: State, request: Command, peer: Peer) -> bool:
    """Say whether the index has all that is in the log; if not, the question waits."""
    if not state.questions and state.store.lookup.follow(_WANTED):
        return True
    if len(state.questions) >= _MOST_QUESTIONS:
        raise refusal(
            ResponseCode.SYSTEM_BUSY, f"{_MOST_QUESTIONS} questions by key wait for the index already: ask again later"
        )
    # Its fields are all that counts of it: a body, which nobody needs here, may be as large as a frame.
    state.questions.append((structs.replace(request, body=b""), peer))
    return False


def forget(state: State, peer: Peer) -> None:
    """Drop the questions of a line that closed."""
    if state.questions:
        state.questions = [question for question in state.questions if question[1].number != peer.number]


def tick(state: State) -> Sequence[tuple[Command, Peer]]:
    """Feed the index, and return the questions that can be answered now."""
    if not state.questions:
        has_time = state.store.lookup.follow(_USUAL, recent=True)
        if has_time and state.store.apache_keys is not None:
            state.store.apache_keys.follow(_USUAL)
        return ()
    if not state.store.lookup.follow(_WANTED):
        return ()
    answerable, state.questions = state.questions, []
    return answerable
