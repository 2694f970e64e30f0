"""A message that is seen if, and only if, a database has committed: python examples/transaction.py localhost:9876."""

import sys

from steelyard import Admin, Message, Producer, StoredMessage

database: set[str] = set()


def charge(account: str) -> None:
    """Do something that may fail."""
    if account == "nobody":
        raise LookupError("no such account")


def order_exists(message: StoredMessage) -> bool:
    """Say what became of a transaction whose process is gone: the broker asks."""
    return message.keys[0] in database


with Producer(sys.argv[1], group="shop", check=order_exists) as producer:
    with producer.transaction(Message("bookings", b"kept", keys="order-1")):
        charge("somebody")
        database.add("order-1")

    try:
        with producer.transaction(Message("bookings", b"dropped", keys="order-2")):
            charge("nobody")
            database.add("order-2")
    except LookupError as error:
        print("rolled back:", error)

with Admin(sys.argv[1]) as admin:
    print("to be seen:", [message.body.decode() for message in admin.messages.list("bookings")])
