"""A program that consumes until it is told to end: started by tests that send it signals.

Arguments: the name servers, the topic, the group, how long each message takes in seconds, for how long handlers may go
on at the end, and whether it runs on a loop of its own. It prints a line for each message, and one when it has ended.
"""

import asyncio
import logging
import sys
import threading
import time

from steelyard import aio
from steelyard.balance.group.options import MemberTimings
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.consumer import Consumer

_TIMES = MemberTimings(leave_grace_ms=200)


def main(namesrv: str, topic: str, group: str, takes_s: float, drain_s: float, kind: str) -> None:
    """Consume."""

    def handle(message: ReceivedMessage) -> None:
        print(f"begun {message.body.decode()}", flush=True)
        time.sleep(takes_s)
        print(f"done {message.body.decode()}", flush=True)

    if kind == "aio":

        async def run() -> None:
            consumer = aio.Consumer(namesrv, group=group, start_from="first", drain_s=drain_s, times=_TIMES)
            consumer.handles(topic)(handle)
            await consumer.run()

        asyncio.run(run())
    else:
        consumer = Consumer(namesrv, group=group, start_from="first", drain_s=drain_s, times=_TIMES)
        consumer.handles(topic)(handle)
        consumer.run()
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    print(f"ended {others}", flush=True)


if __name__ == "__main__":
    logging.basicConfig()
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]), sys.argv[6])
