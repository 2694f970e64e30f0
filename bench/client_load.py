"""Our client as a load, in a process of its own: ``python -m bench.client_load WAY NAME_SERVER TOPIC COUNT GROUP``.

Each way is what a user would write. A sender counts what was answered with a place in a queue and what failed, and
tells both at the end; a handler of messages is bench/callback.py.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from bench.callback import BODY_BYTES, Callback
from steelyard import Consumer, Message, Producer, aio
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import SteelyardError
from steelyard.net.event_loop import new_event_loop

IN_FLIGHT, BATCH = 64, 32
_BODY = b"x" * BODY_BYTES


class _Counts:
    """How many messages were stored, and how many were not."""

    def __init__(self) -> None:
        self.sent, self.failed = 0, 0

    def record_failure(self, problem: SteelyardError, messages: int = 1) -> None:
        """Count a failure, and say the first."""
        if not self.failed:
            print(problem, file=sys.stderr, flush=True)
        self.failed += messages

    def print_counts(self) -> None:
        """Print both."""
        print(json.dumps({"sent": self.sent, "failed": self.failed}), flush=True)


def _send(name_server: str, topic: str, messages: int, group: str) -> None:
    """Send one after the other, from one thread."""
    counts = _Counts()
    with Producer(name_server, group=group) as producer:
        for _ in range(messages):
            try:
                producer.send(Message(topic, _BODY))
                counts.sent += 1
            except SteelyardError as problem:
                counts.record_failure(problem)
    counts.print_counts()


def _submit(name_server: str, topic: str, messages: int, group: str, *, linger_ms: float | None = None) -> None:
    """Have so many on their way from one thread, and wait for the oldest before the next."""
    counts, under_way = _Counts(), deque[Future[SendResult]]()

    def pop_oldest() -> None:
        try:
            under_way.popleft().result()
            counts.sent += 1
        except SteelyardError as problem:
            counts.record_failure(problem)

    with Producer(name_server, group=group, linger_ms=linger_ms) as producer:
        for _ in range(messages):
            if len(under_way) == IN_FLIGHT:
                pop_oldest()
            under_way.append(producer.submit(Message(topic, _BODY)))
        while under_way:
            pop_oldest()
    counts.print_counts()


def _tasks(name_server: str, topic: str, messages: int, group: str, *, linger_ms: float | None = None) -> None:
    """Send from so many tasks of one loop, each of which waits for the answer before it sends the next."""
    counts, left = _Counts(), iter(range(messages))

    async def send_until_none_is_left(producer: aio.Producer) -> None:
        for _ in left:
            try:
                await producer.send(Message(topic, _BODY))
                counts.sent += 1
            except SteelyardError as problem:
                counts.record_failure(problem)

    async def send_all() -> None:
        async with aio.Producer(name_server, group=group, linger_ms=linger_ms) as producer:
            await asyncio.gather(*(send_until_none_is_left(producer) for _ in range(IN_FLIGHT)))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(send_all())
    counts.print_counts()


def _batches(name_server: str, topic: str, messages: int, group: str) -> None:
    """Send batches, one after the other, from one thread."""
    counts = _Counts()
    with Producer(name_server, group=group) as producer:
        for start in range(0, messages, BATCH):
            batch = [Message(topic, _BODY) for _ in range(min(BATCH, messages - start))]
            try:
                counts.sent += len(producer.send_many(batch))
            except SteelyardError as problem:
                counts.record_failure(problem, len(batch))
    counts.print_counts()


def _consume(name_server: str, topic: str, messages: int, group: str) -> None:
    """Be handed messages by a plain callback."""
    callback = Callback(messages)
    consumer = Consumer(name_server, group=group)
    consumer.handles(topic)(callback.handle)
    with consumer:
        callback.print_until_done()


_WAYS: dict[str, Callable[[str, str, int, str], None]] = {
    "send": _send,
    "submit": _submit,
    "tasks": _tasks,
    # Messages that are handed over in one turn of the loop share a request.
    "submit-together": partial(_submit, linger_ms=0),
    "tasks-together": partial(_tasks, linger_ms=0),
    "batches": _batches,
    "consume": _consume,
}

if __name__ == "__main__":
    _WAYS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
