"""Batches: `send_many` packs messages that are given together, `BatchAccumulator` those that linger for each other.

`send_many` packs by topic, and by queue where messages have keys. Batches without keys are sent in parallel. Those of
one queue go one after the other, so that the messages of a key keep their order; after a failure the rest of the queue
is not sent. The caller gets one result for each message, or `PartlySent`.

Lingering messages are sent when a batch is full or its time is over. A batch is stored as a whole, or every message of
it fails. Delayed messages, and those large enough to be compressed, go alone: a batch supports neither.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from steelyard.client.producer.send_async import Promise
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import PartlySent, SendFailed, SteelyardError
from steelyard.model import Message, Queue
from steelyard.model.formatting import pluralize
from steelyard.protocol.batch_send import MAX_BATCH_MESSAGES, can_batch, group_into_batches, max_batched_bytes

if TYPE_CHECKING:
    from steelyard.client.producer.prepare import SendPreparer, SharedQueueRotation
    from steelyard.client.producer.send_request import BatchSend

MessageKey = str | int | None | Callable[[Message], str | int | None]
"""One key for all messages, or a callable that returns the key of each."""

_SendTogether = Callable[["SharedQueueRotation", Sequence[Message], Queue | None], Awaitable[list[SendResult]]]
"""Sends messages of one topic together, to a queue or to any."""


async def send_many(
    preparer: "SendPreparer",
    send: _SendTogether,
    messages: Iterable[Message],
    key: MessageKey,
    max_bytes: int,
) -> list[SendResult]:
    """Send messages in batches; raises PartlySent unless all are stored."""
    given = list(messages)
    checked = [preparer.validate(message) for message in given]
    indexes_by_queue: dict[tuple[str, Queue | None], list[int]] = {}
    for place, message in enumerate(checked):
        rotation = await preparer.find_rotation(message.topic)
        wanted = key(given[place]) if callable(key) else key
        indexes_by_queue.setdefault(
            (message.topic, preparer.choose_queue(rotation, message, wanted, None, None, None)), []
        ).append(place)
    results: list[SendResult | SteelyardError] = [_NOT_SENT] * len(checked)

    async def send_in_turn(topic: str, queue: Queue | None, groups: list[list[int]]) -> None:
        rotation = await preparer.find_rotation(topic)
        for group in groups:
            try:
                sent = await send(rotation, [checked[place] for place in group], queue)
            except SteelyardError as error:
                for place in group:
                    results[place] = error
                return
            for place, each in zip(group, sent, strict=True):
                results[place] = each

    runs = []
    for (topic, queue), places in indexes_by_queue.items():
        packed = group_into_batches([checked[place] for place in places], max_bytes=max_bytes)
        groups = [[places[at] for at in group] for group in packed]
        runs += [send_in_turn(topic, queue, groups)] if queue else [send_in_turn(topic, None, [g]) for g in groups]
    await asyncio.gather(*runs)
    sent = [result for result in results if isinstance(result, SendResult)]
    if len(sent) < len(results):
        raise partly_sent(results)
    return sent


def partly_sent(results: "Sequence[SendResult | SteelyardError]") -> PartlySent:
    """Return the error for results of which some are errors."""
    errors = [result for result in results if isinstance(result, SteelyardError)]
    were = "was" if len(errors) == 1 else "were"
    return PartlySent(
        f"{len(errors)} of {pluralize(len(results), 'message')} {were} not stored ({errors[0].what})",
        results=tuple(results),
        last=errors[0],
        next_step="look into `results` to see which, and send those again",
    )


_NOT_SENT = SendFailed("it was not sent, because a message before it in its queue was not stored")


class _OpenBatch:
    """A batch that is being filled."""

    __slots__ = ("messages", "promises", "rotation", "size", "timer")

    def __init__(self, rotation: "SharedQueueRotation", timer: asyncio.TimerHandle) -> None:
        self.rotation, self.timer = rotation, timer
        self.messages: list[Message] = []
        self.promises: list[Promise[SendResult]] = []
        self.size = 0


class BatchAccumulator:
    """Messages that wait until a batch is full or due; on the loop."""

    def __init__(
        self,
        start_batch: "Callable[[SharedQueueRotation, BatchSend, Promise[list[SendResult]], Queue | None], None]",
        preparer: "SendPreparer",
        linger_ms: float,
        max_bytes: int,
        single_from: int | None,
    ) -> None:
        self._start_batch, self._preparer = start_batch, preparer
        self._linger_s = linger_ms / 1000
        self._max_bytes = max_bytes
        self._single_from = max_bytes if single_from is None else min(max_bytes, single_from)
        self._open_batches: dict[tuple[str, Queue | None], _OpenBatch] = {}

    def accepts(self, message: Message) -> bool:
        """Say whether a message can be batched."""
        return len(message.body) < self._single_from and can_batch(message)

    def add(
        self, rotation: "SharedQueueRotation", message: Message, queue: Queue | None, promise: Promise[SendResult]
    ) -> None:
        """Add a message to the batch of its topic or queue."""
        place, size = (message.topic, queue), max_batched_bytes(message)
        batch = self._open_batches.get(place)
        if batch is not None and batch.size + size > self._max_bytes:
            self._send_batch(place)
            batch = None
        if batch is None:
            timer = asyncio.get_running_loop().call_later(self._linger_s, self._send_batch, place)
            batch = self._open_batches[place] = _OpenBatch(rotation, timer)
        batch.messages.append(message)
        batch.promises.append(promise)
        batch.size += size
        if len(batch.messages) >= MAX_BATCH_MESSAGES:
            self._send_batch(place)

    def flush(self) -> None:
        """Send all batches now."""
        for place in list(self._open_batches):
            self._send_batch(place)

    def _send_batch(self, place: tuple[str, Queue | None]) -> None:
        batch = self._open_batches.pop(place)
        batch.timer.cancel()
        self._start_batch(
            batch.rotation, self._preparer.prepare_batch(batch.messages), _SharedPromise(batch.promises), place[1]
        )


class _SharedPromise:
    """One promise for all messages of a batch."""

    __slots__ = ("_promises",)

    def __init__(self, promises: list[Promise[SendResult]]) -> None:
        self._promises = promises

    def done(self) -> bool:
        return all(promise.done() for promise in self._promises)

    def set_result(self, result: list[SendResult], /) -> None:
        for promise, sent in zip(self._promises, result, strict=True):
            if not promise.done():
                promise.set_result(sent)

    def set_exception(self, error: BaseException, /) -> None:
        for promise in self._promises:
            if not promise.done():
                promise.set_exception(copy(error))
