"""Asks for a message again, and finds the dead letters: python examples/later.py localhost:9876."""

import sys
import threading

from steelyard import Admin, Consumer, Message, Producer, Received

where = sys.argv[1]
is_done = threading.Event()
consumer = Consumer(where, group="mailers", start_from="first")


@consumer.handles("mails")
def post(message: Received) -> None:
    """Wait for the other side without an error, and give up what will never work."""
    if message.body == b"impossible":
        raise ValueError("nobody lives there")
    if message.attempt == 1:
        print("later, please", flush=True)
        message.later(delay_s=1)
    else:
        print("posted at attempt", message.attempt, flush=True)
        is_done.set()


with Admin(where) as admin:
    admin.create_topic("mails", 4)
    admin.create_group("mailers", retries=0)
with Admin(where) as admin, Producer(where, group="shop") as producer, consumer:
    producer.send(Message("mails", b"impossible"))
    while not (dead := admin.dead_letters("mailers")):
        is_done.wait(0.1)
    print("dead letters:", [letter.body.decode() for letter in dead])
    admin.create_group("mailers", retries=16)
    producer.send(Message("mails", b"letter"))
    is_done.wait(30)
