"""Asks for a message again, and finds the dead letters: python examples/later.py localhost:9876."""

import sys
import threading

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage

namesrv = sys.argv[1]
is_done = threading.Event()
consumer = Consumer(namesrv, group="mailers", start_from="first")


@consumer.handles("mails")
def post(message: ReceivedMessage) -> None:
    """Wait for the other side without an error, and give up what will never work."""
    if message.body == b"impossible":
        raise ValueError("nobody lives there")
    if message.attempt == 1:
        print("later, please", flush=True)
        message.later(delay_s=1)
    else:
        print("posted at attempt", message.attempt, flush=True)
        is_done.set()


with Admin(namesrv) as admin:
    admin.topics.create("mails", 4)
    admin.groups.create("mailers", retries=0)
with Admin(namesrv) as admin, Producer(namesrv, group="shop") as producer, consumer:
    producer.send(Message("mails", b"impossible"))
    while not (dead := admin.dead_letters.list("mailers")):
        is_done.wait(0.1)
    print("dead letters:", [letter.body.decode() for letter in dead])
    admin.groups.create("mailers", retries=16)
    producer.send(Message("mails", b"letter"))
    is_done.wait(30)
