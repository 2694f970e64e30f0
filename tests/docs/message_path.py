"""The functions that one message, and one member that joins, pass through: ARCHITECTURE.md is compared with them.

`python -m tests.docs.message_path` prints how many calls and modules one message takes in the steady state.
"""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import steelyard
from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from steelyard.serve.embedded import Cluster
from tests.waiting import until

_ROOT = f"{Path(steelyard.__file__).parent}/"
_WARM_UP = 20


class _Recorder:
    """Counts the calls of our functions while it is on; threads must start after it was installed."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.is_on = False
        self._names: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if not self.is_on or event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            path = code.co_filename
            self._names[code] = f"{path.removeprefix(_ROOT)}:{code.co_name}" if path.startswith(_ROOT) else None
        name = self._names[code]
        if name is not None:
            self.calls[name] += 1


def follow_message(count: int = 1) -> Counter[str]:
    """Send messages, each when the one before was handled, and return what was called until all are committed."""
    with _recorder() as recorder, _group() as (cluster, producer, handled), Admin(cluster.namesrv) as admin:
        _send(producer, handled, _WARM_UP)  # routes, connections and threads are there
        recorder.is_on = True
        _send(producer, handled, count)
        recorder.is_on = count == 1  # else how often somebody asks below would be counted
        until(lambda: sum(each.committed or 0 for each in admin.offsets.list("billing", "orders")) == len(handled))
        recorder.is_on = False
        return recorder.calls


def follow_join() -> Counter[str]:
    """Let a second member join a group, and return what was called until both own their share."""
    with _recorder() as recorder, _group() as (cluster, _, _):
        recorder.is_on = True
        with _consumer(cluster, []) as joined:
            until(lambda: _owned(joined) == 2)
        recorder.is_on = False
        return recorder.calls


@contextmanager
def _recorder() -> Iterator[_Recorder]:
    recorder = _Recorder()
    before, of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(before)
        threading.setprofile(of_threads)


@contextmanager
def _group() -> Iterator[tuple[Cluster, Producer, list[ReceivedMessage]]]:
    handled: list[ReceivedMessage] = []
    with Cluster() as cluster, Producer(cluster.namesrv) as producer:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)
        with _consumer(cluster, handled) as first:
            until(lambda: _owned(first) == 4)
            yield cluster, producer, handled


@contextmanager
def _consumer(cluster: Cluster, handled: list[ReceivedMessage]) -> Iterator[Consumer]:
    consumer = Consumer(cluster.namesrv, group="billing", start_from="first")
    consumer.handles("orders")(handled.append)
    with consumer:
        yield consumer


def _owned(consumer: Consumer) -> int:
    return sum(queue.topic == "orders" for queue in consumer.assignment)


def _send(producer: Producer, handled: list[ReceivedMessage], count: int) -> None:
    for end in range(len(handled) + 1, len(handled) + 1 + count):
        producer.send(Message("orders", b"x"))
        while len(handled) < end:
            threading.Event().wait(0.0005)


if __name__ == "__main__":
    found = follow_message(_MANY := 500)
    per_message = {name: times / _MANY for name, times in found.items() if times >= _MANY * 0.9}
    modules = {name.partition(":")[0] for name in per_message}
    print(f"one message: {sum(per_message.values()):.0f} calls in {len(modules)} modules")
    for name, times in per_message.items():
        print(f"{times:6.1f}  {name}")
