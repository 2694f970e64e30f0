"""Messages that come at a steady pace while members come and go: each has a key, and a key has one queue.

They are sent over plain lines and not by a producer of ours, so that a trial of consumers is about consumers.
"""

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from steelyard.model import Queue
from steelyard.wire.batch import BatchItem
from tests.interop.mixed.broker_pairs import BrokerPair
from tests.interop.servers import WireConnection
from tests.interop.wire_client import send_batch

_BATCH = 20
_STILL_SECONDS = 60


class SteadyProducer:
    """A thread that sends so many messages, so many a second; bodies are ``key:number``, and a key is a queue."""

    def __init__(self, pair: BrokerPair, queues: Sequence[Queue], count: int, a_second: int) -> None:
        self.count = count
        self.sent: set[str] = set()
        """Every message that was acknowledged."""
        self._pair, self._queues, self._a_second = pair, queues, a_second
        self._progress = threading.Condition()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def wait(self, share: float = 1) -> None:
        """Wait until such a share of the messages is sent."""
        with self._progress:
            while len(self.sent) < share * self.count and self._failure is None:
                assert self._progress.wait(_STILL_SECONDS), f"the flow stands still at {len(self.sent)} messages"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with ExitStack() as connections:
                self._send_all(
                    {broker: connections.enter_context(self._pair.connection(broker)) for broker in self._pair.brokers}
                )
        except BaseException as failure:
            self._failure = failure
        with self._progress:
            self._progress.notify_all()

    def _send_all(self, connections: Mapping[str, WireConnection]) -> None:
        started, begun = time.monotonic(), 0
        for first in itertools.count(0, _BATCH):
            for key, queue in enumerate(self._queues):
                some = range(first, first + min(_BATCH, self.count - begun))
                if not some:
                    return
                uids = [f"{key}:{number}" for number in some]
                items = [BatchItem(0, uid.encode(), b"") for uid in uids]
                born_ms = time.time_ns() // 1_000_000
                send_batch(connections[queue.broker], queue.topic, queue.queue_id, items, born_ms=born_ms)
                begun += len(uids)
                with self._progress:
                    self.sent.update(uids)
                    self._progress.notify_all()
                time.sleep(max(0.0, started + begun / self._a_second - time.monotonic()))
