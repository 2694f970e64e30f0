"""The producers of the demo: threads that share one `Producer` and send numbered messages at a steady rate."""

import threading
import time
from itertools import count
from typing import TYPE_CHECKING

from examples.demo.delivery_report import DeliveryLog
from steelyard.errors import SteelyardError
from steelyard.model import Message

if TYPE_CHECKING:
    from steelyard.balance.producer.broker_latency import BrokerHealth
    from steelyard.client.sync.producer import Producer

_THREADS = 4
_MESSAGES_PER_S = 40.0
"""Messages a second, of each thread."""


class ProducerThreads:
    """Threads that send until they are stopped."""

    def __init__(self, producer: "Producer", topic: str, delivery_log: DeliveryLog) -> None:
        self._producer, self._topic, self._delivery_log = producer, topic, delivery_log
        self._numbers = count()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(_THREADS)]

    def start(self) -> None:
        """Start sending."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop sending, and wait for messages in flight."""
        self._stopped.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _write(self) -> None:
        while not self._stopped.is_set():
            next_s = time.monotonic() + 1 / _MESSAGES_PER_S
            number = next(self._numbers)
            try:
                sent = self._producer.send(Message(self._topic, b"%d" % number))
            except SteelyardError:
                self._delivery_log.record_failed()
            else:
                self._delivery_log.record_sent(number, sent.queue.broker)
            self._stopped.wait(max(0.0, next_s - time.monotonic()))

    def broker_latency(self) -> "list[BrokerHealth]":
        """Return the latency of brokers as the producer measures it."""
        return self._producer.brokers()
