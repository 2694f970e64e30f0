"""Fetch buffer: messages that were pulled and wait to be polled, in order within a queue, in turn over all queues.

A message waits until a poll returns it, and is *polled* until it is done. A queue that starts again (after a rebalance,
or a seek) has a new generation and a new buffer; the owner of the old one has to give back its messages.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.model import Queue

_MESSAGES_PER_TURN = 32
"""How many messages a queue gives in its turn: as many as one pull."""


@dataclass(slots=True, eq=False)
class QueueBuffer:
    """The messages of one queue in one generation."""

    queue: Queue
    generation: int
    count: int = 0
    """How many are waiting."""
    body_bytes: int = 0
    polled: list[int] = field(default_factory=list)
    """The offsets that the user has and that are not done, in order."""
    held: set[int] = field(default_factory=set)
    """Unreadable offsets, which are not polled and not done."""
    is_scheduled: bool = False
    _batches: deque[tuple[Sequence[int], Sequence[ReceivedMessage]]] = field(default_factory=deque)
    _at: int = 0

    def add(self, offsets: Sequence[int], messages: Sequence[ReceivedMessage]) -> None:
        """Append messages."""
        self._batches.append((offsets, messages))
        self.count += len(offsets)
        self.body_bytes += sum(len(message.body) for message in messages)

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Return the next messages, which are polled now."""
        given: list[ReceivedMessage] = []
        while self._batches and limit > 0:
            offsets, messages = self._batches[0]
            end = self._at + limit
            part = messages[self._at : end]
            self.polled += offsets[self._at : end]
            given += part
            limit -= len(part)
            if end < len(offsets):
                self._at = end
            else:
                self._batches.popleft()
                self._at = 0
        self.count -= len(given)
        self.body_bytes -= sum(len(message.body) for message in given)
        return given

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Put back the messages that were polled last, before all others."""
        offsets = [message.offset for message in messages]
        if self.polled[-len(offsets) :] != offsets:
            return  # they are done, or the queue started again
        del self.polled[-len(offsets) :]
        if self._at:
            front_offsets, front_messages = self._batches.popleft()
            self._batches.appendleft((front_offsets[self._at :], front_messages[self._at :]))
            self._at = 0
        self._batches.appendleft((offsets, messages))
        self.count += len(offsets)
        self.body_bytes += sum(len(message.body) for message in messages)

    def first(self) -> int | None:
        """Return the offset of the message that is polled next, if one is waiting."""
        return self._batches[0][0][self._at] if self._batches else None

    def low(self) -> int | None:
        """Return the first offset that is not done, if there is one here."""
        first = self.polled[0] if self.polled else self.first()
        return min(self.held if first is None else (*self.held, first)) if self.held else first

    def remove_polled(self, offset: int) -> None:
        """Remove an offset from the polled ones: the user did not get it."""
        if offset in self.polled:
            self.polled.remove(offset)

    def mark_done(self, below: int | None = None) -> list[int]:
        """Mark polled messages as done, all or those below an offset; return their offsets."""
        if below is None:
            finished, self.polled = self.polled, []
        else:
            finished = [offset for offset in self.polled if offset < below]
            self.polled = self.polled[len(finished) :]
        return finished

    def clear(self) -> list[int]:
        """Remove all waiting messages; return their offsets."""
        left = [offset for offsets, _ in self._batches for offset in offsets][self._at :]
        self._batches.clear()
        self._at = self.count = self.body_bytes = 0
        return left


class FetchBuffer:
    """The buffers of all queues of one pull consumer, and their turns."""

    def __init__(self) -> None:
        self.paused: set[Queue] = set()
        """Queues that are not polled; what is buffered stays."""
        self._buffers: dict[Queue, QueueBuffer] = {}
        self._schedule: deque[QueueBuffer] = deque()

    def find(self, queue: Queue) -> QueueBuffer | None:
        """Return the buffer of a queue, if it has one."""
        return self._buffers.get(queue)

    def all(self) -> list[QueueBuffer]:
        """Return all buffers."""
        return list(self._buffers.values())

    def create(self, queue: Queue, generation: int) -> QueueBuffer:
        """Give a queue an empty buffer; its old one is dropped."""
        self.drop(queue)
        buffer = self._buffers[queue] = QueueBuffer(queue, generation)
        return buffer

    def drop(self, queue: Queue) -> QueueBuffer | None:
        """Remove the buffer of a queue, and return it."""
        buffer = self._buffers.pop(queue, None)
        if buffer is not None and buffer.is_scheduled:
            self._schedule.remove(buffer)
            buffer.is_scheduled = False
        return buffer

    def add(self, buffer: QueueBuffer, offsets: Sequence[int], messages: Sequence[ReceivedMessage]) -> None:
        """Append messages to a buffer, and schedule it."""
        if not offsets:
            return
        buffer.add(offsets, messages)
        self._schedule_once(buffer)

    def poll(self, limit: int, may_poll: Callable[[QueueBuffer], bool]) -> list[ReceivedMessage]:
        """Return up to ``limit`` messages of the buffers that may be polled, a few of each in turn."""
        taken: list[ReceivedMessage] = []
        waiting, passed = self._schedule, 0
        while passed < len(waiting) and len(taken) < limit:
            buffer = waiting.popleft()
            if not buffer.count:
                buffer.is_scheduled = False
                continue
            if buffer.queue in self.paused or not may_poll(buffer):
                passed += 1
            else:
                taken += buffer.take(min(_MESSAGES_PER_TURN, limit - len(taken)))
                passed = 0
            waiting.append(buffer)
        return taken

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Put back the messages of the last poll, which its caller never saw."""
        by_queue: dict[Queue, list[ReceivedMessage]] = {}
        for message in messages:
            by_queue.setdefault(message.queue, []).append(message)
        for queue, theirs in by_queue.items():
            buffer = self._buffers.get(queue)
            if buffer is not None:
                buffer.put_back(theirs)
                self._schedule_once(buffer)

    def _schedule_once(self, buffer: QueueBuffer) -> None:
        if not buffer.is_scheduled:
            buffer.is_scheduled = True
            self._schedule.append(buffer)
