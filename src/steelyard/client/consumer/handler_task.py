"""HandlerTask: messages of one queue that a worker handles one after the other, and what became of each.

The worker, a thread or an asyncio task, calls the user's function; everything else is decided here, once for both. A
task stops when its queue is revoked, and in an orderly queue at the first failure; messages that were not begun are
reported as skipped. Of a slow task other workers may take what was not begun, even while its worker is in a handler:
a message belongs to the worker that removed it from the deque.

A compressed body is decompressed when its message is begun and released when it has ended; a batch is split so that its
bodies fit. What cannot be decompressed is reported as unreadable, and no handler sees it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from steelyard.balance.group.actions import HandleMessages
from steelyard.balance.group.events import Handled, UnreadableMessage
from steelyard.client.consumer.decompression import MAX_OPEN_BYTES, decompress_message
from steelyard.client.consumer.handlers import Handler
from steelyard.client.consumer.received_message import DeliveryContext, ReceivedMessage
from steelyard.model import Queue
from steelyard.net.clock import steady_ns
from steelyard.wire.limits import ERROR_BYTES
from steelyard.wire.properties import property_text
from steelyard.wire.sysflag import SEALED

_LATER = "the handler called later()"

SLOW_NS = 50_000_000
"""When a task is slow: it was sized to take a fiftieth of this."""

MayStart = Callable[[Queue, int, int], bool]
"""Returns whether one more message of a queue may be begun, by its generation and the time."""

OnFinished = Callable[["HandlerTask"], None]


class HandlerTask:
    """Messages of one queue for one handler."""

    __slots__ = (
        "_checked_ms",
        "_given",
        "_may_start",
        "begun_ns",
        "count",
        "delivery",
        "error",
        "failed",
        "handle",
        "handler",
        "messages",
        "not_begun",
        "offsets",
        "on_finished",
        "skipped",
        "started_ns",
        "took_ns",
        "topic",
        "unreadable",
    )

    def __init__(
        self,
        topic: str,
        handle: HandleMessages,
        handler: Handler,
        offsets: Sequence[int],
        messages: Sequence[ReceivedMessage],
        delivery: DeliveryContext,
        may_start: MayStart | None,
        on_finished: OnFinished | None = None,
    ) -> None:
        self.topic = topic
        """The topic the messages were first sent to, as servers know it."""
        self.handle = handle
        self.handler = handler
        self.offsets = offsets
        self.messages = messages
        self.delivery = delivery
        self.on_finished = on_finished
        """Called with the finished task, instead of the member."""
        self.count = 0
        """How many were begun here: always the first of them."""
        self.failed: dict[int, str] = {}
        """Offsets that failed, and why."""
        self.error: BaseException | None = None
        """The last error."""
        self.took_ns: list[int] = []
        self.unreadable: dict[int, UnreadableMessage] = {}
        self.skipped: Sequence[int] = ()
        """Offsets that are not to be begun."""
        self.begun_ns = 0
        """When the first message was begun."""
        self.started_ns = 0
        """When the message that was begun last was begun."""
        self._checked_ms = -1
        self._may_start = may_start
        self._given: Sequence[ReceivedMessage] | None = None
        """What the handler has, if it had to be decompressed."""
        self.not_begun = deque(range(len(offsets)))
        """Indexes of messages that are not begun; the worker takes from the front, other workers from the end."""

    def start_next(self) -> bool:
        """Say whether the next message may be begun, and count it as begun."""
        if not self.count:
            self.begun_ns = self.started_ns = steady_ns()
        # Once in a millisecond is often enough, and after a long pause the millisecond is another one.
        now_ms = self.started_ns // 1_000_000
        if now_ms != self._checked_ms:
            self._checked_ms, may_start = now_ms, self._may_start
            if may_start is not None and not may_start(self.handle.queue, self.handle.generation, now_ms):
                self._stop()
                return False
        try:
            self.not_begun.popleft()
        except IndexError:
            return False
        self.count += 1
        return True

    def _stop(self, left: int = 0) -> None:
        """Begin nothing more; the rest is skipped."""
        while self.not_begun:
            try:
                self.not_begun.popleft()
            except IndexError:
                break
            left += 1
        self.skipped = self.offsets[self.count : self.count + left]

    def start_all(self) -> bool:
        """Say whether all messages may be begun together."""
        if not self.start_next():
            return False
        self.not_begun.clear()
        self.count = len(self.offsets)
        return True

    @property
    def is_compressed(self) -> bool:
        """Whether some bodies are compressed."""
        return any(message.sys_flag & SEALED for message in self.messages)

    def decompress(self) -> int | None:
        """Decompress the message that was begun last; return its size, or None if it is unreadable."""
        message = self.messages[self.count - 1]
        found = decompress_message(message)
        if isinstance(found, UnreadableMessage):
            self.unreadable[message.offset] = found
            if self.handler.orderly:
                self._stop()
            return None
        self._given = (found,)
        return len(found.body)

    def decompress_batch(self) -> tuple[list[ReceivedMessage], int]:
        """Decompress what was begun last, and begin and decompress more up to the limit; return all with their size."""
        given: list[ReceivedMessage] = []
        size = 0
        while True:
            one = self.decompress()
            if one is not None:
                given.append(self.current)
                size += one
            if size >= MAX_OPEN_BYTES or not self.start_next():
                self._given = given
                return given, size

    def release(self) -> None:
        """Release decompressed bodies."""
        self._given = None

    def succeeded(self) -> None:
        """Record that the message that was begun last is done."""
        if self.delivery.left and self.offsets[self.count - 1] in self.delivery.left:
            self.count -= 1
            self._stop(left=1)
            return
        now_ns = steady_ns()
        self.took_ns.append(now_ns - self.started_ns)
        self.started_ns = now_ns
        if self.handler.orderly and self.delivery.later:
            self._stop()

    def raised(self, error: BaseException, why: str) -> None:
        """Record that the handler raised; ``why`` may be sent to a broker."""
        now_ns = steady_ns()
        self.took_ns.append(now_ns - self.started_ns)
        self.started_ns = now_ns
        self.error = error
        if self.handler.batch > 1:
            self.failed |= dict.fromkeys((message.offset for message in self.given), why)
        else:
            self.failed[self.offsets[self.count - 1]] = why
        if self.handler.orderly:
            self._stop()

    @property
    def current(self) -> ReceivedMessage:
        """The message that was begun last."""
        return self.messages[self.count - 1] if self._given is None else self._given[-1]

    @property
    def given(self) -> Sequence[ReceivedMessage]:
        """What the handler has: a message, or a batch."""
        if self._given is not None:
            return self._given
        return self.messages if self.handler.batch > 1 else (self.messages[self.count - 1],)

    @property
    def spent_ms(self) -> int:
        """The total time of the handler."""
        return sum(self.took_ns) // 1_000_000

    def is_slow(self, now_ns: int) -> bool:
        """Say whether other workers should take what is not begun."""
        return bool(self.begun_ns) and now_ns - self.begun_ns > SLOW_NS and not self.handler.orderly

    def split_rest(self) -> list["HandlerTask"]:
        """Remove what is not begun, and return a task for each message."""
        places: list[int] = []
        while self.not_begun:
            try:
                places.append(self.not_begun.pop())
            except IndexError:
                break
        places.reverse()
        return [
            HandlerTask(
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
        """Return the results for the member."""
        handle, offsets = self.handle, self.offsets
        begun = offsets if self.count == len(offsets) else offsets[: self.count]
        later, unreadable = self.delivery.later, self.unreadable
        if not self.failed and not later and not unreadable:
            return [Handled(handle.queue, handle.generation, begun, skipped=self.skipped)]
        failed = self.failed
        later_offsets = {offset: later[offset] for offset in begun if offset in later and offset not in failed}
        done = [
            offset
            for offset in begun
            if offset not in failed and offset not in later_offsets and offset not in unreadable
        ]
        delayed = [
            Handled(handle.queue, handle.generation, (), (offset,), delay_level=level, errors={offset: _LATER})
            for offset, level in later_offsets.items()
        ]
        first = Handled(
            handle.queue,
            handle.generation,
            done,
            list(failed),
            skipped=self.skipped,
            unreadable=unreadable,
            errors=failed,
        )
        return [first, *delayed]


def describe_error(error: BaseException, secrets: Iterable[str] = ()) -> str:
    r"""Return the type and the message of an error on one line, without secrets; never values of variables.

    >>> describe_error(ValueError("no customer 42\nfor key s3cret"), ["s3cret"])
    'ValueError: no customer 42 for key ***'
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:  # it is the user's class
        text = ""
    for secret in secrets:
        text = text.replace(secret, "***")
    return property_text(f"{name}: {text}" if text else name, ERROR_BYTES)
