"""What was stored is written, then its senders are answered, then pulls that waited for it are.

Every write of the log goes this way, whoever wants it: a place in the log that could not be written is given again to
the next message, so that whoever waits for a place has to be answered before another one gets it. Nobody is told
"stored" whose message is not in the log, or, if its sender wants that, not safe on the disk.
"""

from steelyard.broker import waking
from steelyard.broker.disk_trouble import STORING
from steelyard.broker.state import Ack, State
from steelyard.store.store import Flushed
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.peers import Reply

__all__ = ["answer_synced", "flush"]


def flush(state: State, now_ms: int) -> Flushed:
    """Write what was stored since the last time, answer its senders, wake pulls that waited for it."""
    is_dirty = state.store.is_dirty
    flushed = state.store.flush()
    acks, state.acks = state.acks, []
    for ack in acks:
        if ack.end > flushed.end:
            why = "nobody knows why" if flushed.error is None else str(flushed.error)
            _answer(state, ack, _not_stored(ack.answer, why))
        elif ack.waits and ack.end > state.store.durable:
            state.unsynced.append((ack, now_ms + state.options.flush_wait_ms))
        else:
            _answer(state, ack, ack.answer)
    if flushed.error is None:
        if is_dirty:
            state.trouble.worked(STORING, now_ms)
    else:
        if state.store.refusal is None:  # else it is over for good, which is told by itself
            state.trouble.failed(STORING, flushed.error, now_ms)
        state.halves.not_written(flushed.end)
        answer_synced(state)
    waking.wake(state, now_ms)
    return flushed


def answer_synced(state: State) -> None:
    """Answer those for whom the disk has enough by now; all of them if it failed, since nobody knows what it has."""
    durable, refusal = state.store.durable, state.store.refusal
    while state.unsynced and (refusal is not None or state.unsynced[0][0].end <= durable):
        ack, _ = state.unsynced.popleft()
        _answer(state, ack, ack.answer if refusal is None else _not_stored(ack.answer, refusal))


def _answer(state: State, ack: Ack, answer: Command) -> None:
    state.outbox.append(Reply(ack.peer, answer))


def _not_stored(answer: Command, why: str) -> Command:
    return Command(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        opaque=answer.opaque,
        flag=RESPONSE,
        remark=f"the message was not stored: {why}"[:1_000],
        version=answer.version,
        header_type=answer.header_type,
    )
