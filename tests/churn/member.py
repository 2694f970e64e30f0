"""One member of a churning group, alone in a process or not: it writes down every message that it begins and ends.

A line is written by one call, so that what was written is there after a kill: `s` or `e` for start and end, the
message's body, the queue, and the time of a clock that all processes of the machine share. SIGTERM lets a process leave
as it should. What it holds is told on the standard output, one line of JSON for each change.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from steelyard import Consumer, Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage


class Orders(msgspec.Struct, frozen=True):
    """What a member is to do."""

    name_server: str
    group: str
    topic: str
    log: str
    orderly: bool = False
    handling_ms: float = 0
    allocate: str = "sticky"


def working(orders: Orders, moved: Callable[[Rebalanced], object]) -> Consumer:
    """Make the member; its log stays open as long as the process lives, for a handler may still run after its end."""
    log = os.open(Path(orders.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    consumer = Consumer(orders.name_server, group=orders.group, strategy=orders.allocate, start_from="first")

    def handle(message: ReceivedMessage) -> None:
        what = f"{message.body.decode()} {message.queue.broker} {message.queue.queue_id}"
        os.write(log, f"s {what} {time.monotonic_ns()}\n".encode())
        if orders.handling_ms:
            time.sleep(orders.handling_ms / 1000)
        os.write(log, f"e {what} {time.monotonic_ns()}\n".encode())

    consumer.handles(orders.topic, orderly=orders.orderly)(handle)
    consumer.on_rebalance(moved)
    return consumer


def _print(moved: Rebalanced) -> None:
    print(json.dumps({"at_ms": moved.at_ms, "queues": list(moved.queues), "why": moved.why}), flush=True)


if __name__ == "__main__":
    logging.basicConfig()
    working(msgspec.json.decode(sys.argv[1], type=Orders), _print).run()
