"""Many messages in few requests: those that are given together, and those that wait a moment for each other.

`send_many` packs messages by topic, and by queue where they have keys. Batches without keys are on their way side by
side. Those of one queue go one after the other, so that the messages of a key keep their order; after one that failed,
the rest of its queue is not sent. All of it is told at the end: one result for each message, or `PartlySent`.

Lingering messages are packed as they come, and leave when a batch is full or its time is over. A batch is stored as a
whole, or every message of it fails. What has a delay, and what is large enough to be compressed, goes alone: a batch
can be neither.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING

from steelyard.client.producing.sends import Promise
from steelyard.client.producing.sent import Sent
from steelyard.dialect.batching import BATCH_MESSAGES, may_batch, most_bytes_of, pack
from steelyard.errors import PartlySent, SendFailed, SteelyardError
from steelyard.model import Message, Queue

if TYPE_CHECKING:
    from steelyard.client.producing.outbox import Outbox
    from steelyard.client.producing.parcels import Batch
    from steelyard.client.producing.pickers import SharedPicker

__all__ = ["Key", "Lingering", "partly_sent", "send_many"]

Key = str | int | None | Callable[[Message], str | int | None]
"""One key for all messages, or a callable that says the key of each."""

_Deliver = Callable[["SharedPicker", Sequence[Message], Queue | None], Awaitable[list[Sent]]]
"""Sends messages of one topic together, to a queue or to any."""


async def send_many(
    outbox: "Outbox",
    deliver: _Deliver,
    messages: Iterable[Message],
    key: Key,
    most_bytes: int,
) -> list[Sent]:
    """Send messages in batches; raises PartlySent unless all are stored."""
    given = list(messages)
    checked = [outbox.checked(message) for message in given]
    lanes: dict[tuple[str, Queue | None], list[int]] = {}
    for place, message in enumerate(checked):
        picker = await outbox.find_picker(message.topic)
        wanted = key(given[place]) if callable(key) else key
        lanes.setdefault((message.topic, outbox.choose(picker, message, wanted, None, None, None)), []).append(place)
    results: list[Sent | SteelyardError] = [_NOT_SENT] * len(checked)

    async def send_in_turn(topic: str, queue: Queue | None, groups: list[list[int]]) -> None:
        picker = await outbox.find_picker(topic)
        for group in groups:
            try:
                sent = await deliver(picker, [checked[place] for place in group], queue)
            except SteelyardError as error:
                for place in group:
                    results[place] = error
                return
            for place, each in zip(group, sent, strict=True):
                results[place] = each

    runs = []
    for (topic, queue), places in lanes.items():
        packed = pack([checked[place] for place in places], most_bytes=most_bytes)
        groups = [[places[at] for at in group] for group in packed]
        runs += [send_in_turn(topic, queue, groups)] if queue else [send_in_turn(topic, None, [g]) for g in groups]
    await asyncio.gather(*runs)
    sent = [result for result in results if isinstance(result, Sent)]
    if len(sent) < len(results):
        raise partly_sent(results)
    return sent


def partly_sent(results: "Sequence[Sent | SteelyardError]") -> PartlySent:
    """Say of results, one of each message, that some are errors."""
    errors = [result for result in results if isinstance(result, SteelyardError)]
    were = "was" if len(errors) == 1 else "were"
    return PartlySent(
        f"{len(errors)} of {len(results)} messages {were} not stored ({errors[0].what})",
        results=tuple(results),
        last=errors[0],
        next_step="look into `results` to see which, and send those again",
    )


_NOT_SENT = SendFailed("it was not sent, because a message before it in its queue was not stored")


class _Lane:
    """A batch that is being filled."""

    __slots__ = ("messages", "picker", "promises", "size", "timer")

    def __init__(self, picker: "SharedPicker", timer: asyncio.TimerHandle) -> None:
        self.picker, self.timer = picker, timer
        self.messages: list[Message] = []
        self.promises: list[Promise[Sent]] = []
        self.size = 0


class Lingering:
    """Messages that wait for others to share a batch with; on the loop."""

    def __init__(
        self,
        launch: "Callable[[SharedPicker, Batch, Promise[list[Sent]], Queue | None], None]",
        outbox: "Outbox",
        linger_ms: float,
        most_bytes: int,
        alone_from: int | None,
    ) -> None:
        self._launch, self._outbox = launch, outbox
        self._linger_s = linger_ms / 1000
        self._most_bytes = most_bytes
        self._alone_from = most_bytes if alone_from is None else min(most_bytes, alone_from)
        self._lanes: dict[tuple[str, Queue | None], _Lane] = {}

    def takes(self, message: Message) -> bool:
        """Say whether a message may wait for others."""
        return len(message.body) < self._alone_from and may_batch(message)

    def add(self, picker: "SharedPicker", message: Message, queue: Queue | None, promise: Promise[Sent]) -> None:
        """Let a message wait."""
        place, size = (message.topic, queue), most_bytes_of(message)
        lane = self._lanes.get(place)
        if lane is not None and lane.size + size > self._most_bytes:
            self._leave(place)
            lane = None
        if lane is None:
            timer = asyncio.get_running_loop().call_later(self._linger_s, self._leave, place)
            lane = self._lanes[place] = _Lane(picker, timer)
        lane.messages.append(message)
        lane.promises.append(promise)
        lane.size += size
        if len(lane.messages) >= BATCH_MESSAGES:
            self._leave(place)

    def flush(self) -> None:
        """Let everything leave now."""
        for place in list(self._lanes):
            self._leave(place)

    def _leave(self, place: tuple[str, Queue | None]) -> None:
        lane = self._lanes.pop(place)
        lane.timer.cancel()
        self._launch(lane.picker, self._outbox.batch(lane.messages), _Shared(lane.promises), place[1])


class _Shared:
    """One promise for the many that wait for a batch."""

    __slots__ = ("_promises",)

    def __init__(self, promises: list[Promise[Sent]]) -> None:
        self._promises = promises

    def done(self) -> bool:
        return all(promise.done() for promise in self._promises)

    def set_result(self, result: list[Sent], /) -> None:
        for promise, sent in zip(self._promises, result, strict=True):
            if not promise.done():
                promise.set_result(sent)

    def set_exception(self, error: BaseException, /) -> None:
        for promise in self._promises:
            if not promise.done():
                promise.set_exception(copy(error))
