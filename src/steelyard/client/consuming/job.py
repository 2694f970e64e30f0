"""One chunk of messages in the hands of a worker: what was begun, what became of it, and when to stop.

The worker, be it a thread or a task, calls the user's function; everything else about a chunk is decided here, once for
both. A chunk stops when its queue may not be worked on any more, and in an orderly queue at the first message that
fails; what was not begun is told of as skipped. Of a chunk that turns out slow somebody else may take what was not
begun, also while its worker sits in a message: who takes a message off the list has it, and nobody else.

A compressed body is opened when its message is begun, and let go when it has ended; of a batch so many go to the
handler at a time as may be open together. What cannot be opened is told of as unreadable, and no handler sees it.
"""

from collections import deque
from collections.abc import Callable, Sequence

from steelyard.balance.actions import Handle
from steelyard.balance.events import Handled, Unreadable
from steelyard.client.consuming.delivery import Delivery
from steelyard.client.consuming.handlers import Handler
from steelyard.client.consuming.opening import PART_BYTES, open_message
from steelyard.client.consuming.received import Received
from steelyard.model import Queue
from steelyard.net.clock import steady_ns
from steelyard.wire.sysflag import SEALED

__all__ = ["Finished", "Job", "MayStart"]

SLOW_NS = 50_000_000
"""After this a chunk is slow: it was sized to take a fiftieth of that."""

MayStart = Callable[[Queue, int, int], bool]
"""Says whether one more message of a queue may be begun, by its generation and the time."""

Finished = Callable[["Job"], None]


class Job:
    """Messages of one queue for one handler."""

    __slots__ = (
        "_at_ns",
        "_checked_ms",
        "_given",
        "_may_start",
        "_todo",
        "begun_ns",
        "count",
        "delivery",
        "error",
        "failed",
        "handle",
        "handler",
        "messages",
        "offsets",
        "skipped",
        "then",
        "took_ns",
        "topic",
        "unreadable",
    )

    def __init__(
        self,
        topic: str,
        handle: Handle,
        handler: Handler,
        offsets: Sequence[int],
        messages: Sequence[Received],
        delivery: Delivery,
        may_start: MayStart | None,
        then: Finished | None = None,
    ) -> None:
        self.topic = topic
        """What the messages were sent to, as servers call it."""
        self.handle = handle
        self.handler = handler
        self.offsets = offsets
        self.messages = messages
        self.delivery = delivery
        self.then = then
        """Who wants to know besides the member."""
        self.count = 0
        """How many were begun here: always the first ones."""
        self.failed: list[int] = []
        self.error: BaseException | None = None
        """What went wrong last."""
        self.took_ns: list[int] = []
        self.unreadable: dict[int, Unreadable] = {}
        self.skipped: Sequence[int] = ()
        """What is not to be begun."""
        self.begun_ns = 0
        """When the first one was begun."""
        self._at_ns = 0
        self._checked_ms = -1
        self._may_start = may_start
        self._given: Sequence[Received] | None = None
        """What is with the handler, where that had to be opened."""
        self._todo = deque(range(len(offsets)))
        """Which are not begun; taken off at the front by the worker, at the end by others."""

    def begins(self) -> bool:
        """Say whether the next message may be begun, and count it as begun."""
        if not self.count:
            self.begun_ns = self._at_ns = steady_ns()
        # Once in a millisecond is often enough, and whoever was stopped for longer finds another one.
        now_ms = self._at_ns // 1_000_000
        if now_ms != self._checked_ms and not self._is_allowed(now_ms):
            self._stop()
            return False
        try:
            self._todo.popleft()
        except IndexError:
            return False
        self.count += 1
        return True

    def _is_allowed(self, now_ms: int) -> bool:
        self._checked_ms = now_ms
        handle, may_start = self.handle, self._may_start
        return may_start is None or may_start(handle.queue, handle.generation, now_ms)

    def _stop(self, left: int = 0) -> None:
        """Begin nothing more: what is left is skipped."""
        while self._todo:
            try:
                self._todo.popleft()
            except IndexError:
                break
            left += 1
        self.skipped = self.offsets[self.count : self.count + left]

    def begins_all(self) -> bool:
        """Say whether all messages may be begun together."""
        if not self.begins():
            return False
        self._todo.clear()
        self.count = len(self.offsets)
        return True

    @property
    def is_sealed(self) -> bool:
        """Whether bodies of it have to be opened."""
        return any(message.sys_flag & SEALED for message in self.messages)

    def open(self) -> int | None:
        """Open the message that was begun last; return its size, or None if it cannot be read."""
        message = self.messages[self.count - 1]
        found = open_message(message)
        if isinstance(found, Unreadable):
            self.unreadable[message.offset] = found
            if self.handler.orderly:
                self._stop()
            return None
        self._given = (found,)
        return len(found.body)

    def open_batch(self) -> tuple[list[Received], int]:
        """Open what was begun last, and begin and open what may be with the handler too; return it with its size."""
        given: list[Received] = []
        size = 0
        while True:
            one = self.open()
            if one is not None:
                given.append(self.current)
                size += one
            if size >= PART_BYTES or not self.begins():
                self._given = given
                return given, size

    def close(self) -> None:
        """Let go of what was opened."""
        self._given = None

    def ended(self) -> None:
        """Take note that the message that was begun last is done."""
        if self.delivery.left and self.offsets[self.count - 1] in self.delivery.left:
            self.count -= 1
            self._stop(left=1)
            return
        now_ns = steady_ns()
        self.took_ns.append(now_ns - self._at_ns)
        self._at_ns = now_ns
        if self.handler.orderly and self.delivery.later:
            self._stop()

    def ended_badly(self, error: BaseException) -> None:
        """Take note that the handler raised."""
        now_ns = steady_ns()
        self.took_ns.append(now_ns - self._at_ns)
        self._at_ns = now_ns
        self.error = error
        if self.handler.batch > 1:
            self.failed += [message.offset for message in self.given]
        else:
            self.failed.append(self.offsets[self.count - 1])
        if self.handler.orderly:
            self._stop()

    @property
    def current(self) -> Received:
        """The message that was begun last."""
        return self.messages[self.count - 1] if self._given is None else self._given[-1]

    @property
    def given(self) -> Sequence[Received]:
        """What is with the handler: a message, or a batch of them."""
        if self._given is not None:
            return self._given
        return self.messages if self.handler.batch > 1 else (self.messages[self.count - 1],)

    @property
    def spent_ms(self) -> int:
        """How long the handler took, all together."""
        return sum(self.took_ns) // 1_000_000

    def is_slow(self, now_ns: int) -> bool:
        """Say whether others should have what is not begun."""
        return bool(self.begun_ns) and now_ns - self.begun_ns > SLOW_NS and not self.handler.orderly

    def take_rest(self) -> list["Job"]:
        """Take what is not begun, each message for itself."""
        places: list[int] = []
        while self._todo:
            try:
                places.append(self._todo.pop())
            except IndexError:
                break
        places.reverse()
        return [
            Job(
                self.topic,
                self.handle,
                self.handler,
                (self.offsets[place],),
                (self.messages[place],),
                self.delivery,
                self._may_start,
            )
            for place in places
        ]

    def results(self) -> list[Handled]:
        """Return what the member is to be told."""
        handle, offsets = self.handle, self.offsets
        begun = offsets if self.count == len(offsets) else offsets[: self.count]
        later, unreadable = self.delivery.later, self.unreadable
        if not self.failed and not later and not unreadable:
            return [Handled(handle.queue, handle.generation, begun, skipped=self.skipped)]
        failed = frozenset(self.failed)
        again = {offset: later[offset] for offset in begun if offset in later and offset not in failed}
        done = [offset for offset in begun if offset not in failed and offset not in again and offset not in unreadable]
        told = [
            Handled(handle.queue, handle.generation, (), (offset,), delay_level=level)
            for offset, level in again.items()
        ]
        first = Handled(handle.queue, handle.generation, done, self.failed, skipped=self.skipped, unreadable=unreadable)
        return [first, *told]
