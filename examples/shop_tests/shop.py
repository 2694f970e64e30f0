"""A shop: orders are placed and billed, each once, and a reminder follows half an hour later."""

import json
from types import TracebackType
from typing import Self

from steelyard import Consumer, Message, Producer, StoredMessage

_REMINDER_S = 30 * 60


class Shop:
    """Places orders."""

    def __init__(self, address: str) -> None:
        self._producer = Producer(address, group="shop", avoid_slow_brokers=True)

    def place_order(self, number: int, cents: int) -> None:
        """Place an order, and a reminder of it for later."""
        body = json.dumps({"id": number, "cents": cents}).encode()
        self._producer.send(Message("orders", body, tags="placed", keys=f"order-{number}"))
        self._producer.send(Message("reminders", body, keys=f"order-{number}"), delay_s=_REMINDER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()


class Billing:
    """Bills orders while it is used as a context; each order once, however often its message comes."""

    def __init__(self, address: str) -> None:
        self.billed: dict[int, int] = {}
        """The cents of each order, by its number."""
        self.seen = 0
        """How many messages came."""
        self._consumer = Consumer(address, "billing", start_from="first", workers=1)
        self._consumer.handles("orders", tags="placed")(self._bill)

    def _bill(self, message: StoredMessage) -> None:
        self.seen += 1
        order = json.loads(message.body)
        if order["cents"] < 0:
            raise ValueError(f"order {order['id']} costs {order['cents']} cents")
        self.billed[order["id"]] = order["cents"]

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.stop()
