"""How Java's members pull: one request at a time for each queue, for as long as it is not dropped."""

from collections.abc import Callable, Sequence
from functools import partial

from steelyard.model import StoredMessage
from steelyard.sim.apache.java_queue import ProcessQueue
from steelyard.sim.apache.java_start import start_of
from steelyard.sim.apache.java_state import JavaState
from steelyard.sim.apache.release import Release
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull, PullAnswer
from steelyard.wire.stored import messages

__all__ = ["Puller"]

_COMMITS, _MAY_WAIT = 1, 2
_MOST = 32
_SUSPEND_MS, _TIMEOUT_MS = 15_000, 30_000
_FULL_MS, _ERROR_MS, _BUSY_MS = 50, 1_000, 20
_MOVED_MS = 10_000
"""When 4.9 gives a queue up whose offset is out of range."""


class Puller:
    """Pulls; what comes is given to ``submit``."""

    def __init__(self, state: JavaState, submit: Callable[[ProcessQueue, Sequence[StoredMessage]], None]) -> None:
        self._state, self._submit = state, submit

    def pull(self, known: ProcessQueue) -> None:
        """Pull from a queue, now or when it may be."""
        state = self._state
        if known.is_dropped or state.is_stopped:
            return
        known.pulled_ms = state.now_ms()
        if known.is_full:
            self._later(known, _FULL_MS)
        elif not state.is_orderly or known.was_locked:
            self._ask(known)
        elif known.is_locked:
            state.calls.run(start_of(state, known.queue), partial(self._begin, known))
        else:
            self._later(known, _ERROR_MS)

    def _begin(self, known: ProcessQueue, start: int | None) -> None:
        """Go on in order, with the offset asked for again now that the lock is there."""
        if start is None:
            self._later(known, _ERROR_MS)
        else:
            known.was_locked, known.next_offset = True, start
            self.pull(known)

    def _later(self, known: ProcessQueue, delay_ms: int) -> None:
        self._state.process.after(delay_ms, partial(self.pull, known))

    def _ask(self, known: ProcessQueue) -> None:
        state, queue = self._state, known.queue
        if state.is_orderly and not known.is_locked:
            self._later(known, _ERROR_MS)
            return
        address = state.addresses.get(queue.broker)
        if address is None:
            self._later(known, _ERROR_MS)
            return
        commit = 0 if state.is_broadcasting else state.offsets.get(queue, 0)
        header = Pull(
            state.options.group,
            queue.topic,
            queue.queue_id,
            known.next_offset,
            _MOST,
            _MAY_WAIT | (_COMMITS if commit > 0 else 0),
            max(commit, 0),
            _SUSPEND_MS,
            state.versions[queue.topic],
        )
        command = state.request(RequestCode.PULL_MESSAGE, header)
        state.calls.ask(address, command, _TIMEOUT_MS, partial(self._answered, known))

    def _answered(self, known: ProcessQueue, answer: Command | None) -> None:
        code = None if answer is None else answer.code
        if answer is None or code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            self._later(known, _BUSY_MS if code == ResponseCode.FLOW_CONTROL else _ERROR_MS)
            return
        header = answer.header(PullAnswer)
        if code == ResponseCode.PULL_OFFSET_MOVED:
            self._moved(known, header.next_begin_offset)
            return
        known.next_offset = header.next_begin_offset
        if code == ResponseCode.SUCCESS and not known.is_dropped:
            wanted = self._state.options.topics.get(known.queue.topic)
            found = [
                each for each in messages(answer.body, known.queue.broker) if wanted is None or wanted.takes(each.tags)
            ]
            known.put(found)
            self._submit(known, found)
        elif not known.messages and not known.is_dropped:
            self._state.move(known.queue, header.next_begin_offset)
        self.pull(known)

    def _moved(self, known: ProcessQueue, offset: int) -> None:
        """Give a queue up whose offset is out of range; the next rebalance takes it again, at the right one."""
        known.is_dropped = True
        state = self._state
        if state.release is Release.V4:
            state.process.after(_MOVED_MS, lambda: self._move(known, offset))
        else:
            self._move(known, offset)
            state.rebalance_now()

    def _move(self, known: ProcessQueue, offset: int) -> None:
        state, queue = self._state, known.queue
        state.move(queue, offset, only_up=False)
        state.persist(queue)
        if state.queues.get(queue) is known:
            del state.queues[queue]
