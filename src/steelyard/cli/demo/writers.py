"""The demo's producers: a few threads that share one `Producer` and write numbered messages at a steady rate."""

import threading
import time
from itertools import count
from typing import TYPE_CHECKING

from steelyard.cli.demo.proof import Proof
from steelyard.errors import SteelyardError
from steelyard.model import Message

if TYPE_CHECKING:
    from steelyard.balance.ledger import Standing
    from steelyard.client.blocking.producer import Producer

__all__ = ["Writers"]

_THREADS = 4
_RATE = 40.0
"""Messages a second, of each thread."""


class Writers:
    """Threads that write until they are told to stop."""

    def __init__(self, producer: "Producer", topic: str, proof: Proof) -> None:
        self._producer, self._topic, self._proof = producer, topic, proof
        self._numbers = count()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(_THREADS)]

    def start(self) -> None:
        """Begin to write."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Write no more; what is under way is waited for."""
        self._stopped.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _write(self) -> None:
        while not self._stopped.is_set():
            next_s = time.monotonic() + 1 / _RATE
            number = next(self._numbers)
            try:
                sent = self._producer.send(Message(self._topic, b"%d" % number))
            except SteelyardError:
                self._proof.note_failed()
            else:
                self._proof.note_sent(number, sent.queue.broker)
            self._stopped.wait(max(0.0, next_s - time.monotonic()))

    def ledger(self) -> "list[Standing]":
        """Return what the producer has noted of the brokers."""
        return self._producer.brokers()
