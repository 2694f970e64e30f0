"""Which message, as people write it: ``broker-0:3`` is a queue, ``broker-0:3:41`` an offset in it; and ids."""

import re

from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["checked_id", "place_of", "queue_of"]

_MOST_DIGITS = 19
_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{34}|[0-9A-Fa-f]{56}")


def checked_id(text: str) -> str:
    """Return the id of a message as servers know it; an error if it can be none.

    >>> checked_id("c0a8010200002a9f0000000000000400")
    'C0A8010200002A9F0000000000000400'
    """
    if not _ID.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is no message id",
            next_step="it has 32, 34 or 56 hexadecimal digits; to look for a key: steelyard message find TOPIC KEY",
        )
    return text.upper()


def queue_of(topic: str, text: str) -> Queue:
    """Read a queue of a topic.

    >>> queue_of("orders", "broker-0:3")
    Queue(topic='orders', broker='broker-0', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not broker or not _is_number(number):
        raise ConfigurationError(f"{text!r} is no queue", next_step="write it as BROKER:ID, such as broker-0:3")
    return Queue(topic, broker, int(number))


def place_of(topic: str, text: str) -> tuple[Queue, int]:
    """Read a place in a topic.

    >>> place_of("orders", "broker-0:3:41")
    (Queue(topic='orders', broker='broker-0', queue_id=3), 41)
    """
    queue, _, offset = text.rpartition(":")
    broker, _, number = queue.rpartition(":")
    if not broker or not _is_number(number) or not _is_number(offset):
        raise ConfigurationError(
            f"{text!r} is no place of a message", next_step="write it as BROKER:QUEUE:OFFSET, such as broker-0:3:41"
        )
    return Queue(topic, broker, int(number)), int(offset)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
