"""Load-balanced messaging for Python and Spark. The same clients for asyncio are in `steelyard.aio`.

Importing this is quick: a client is loaded when it is first named, and Spark and the command line not at all.

>>> from steelyard import Message
>>> Message("orders", b"{}", tags="paid").topic
'orders'
"""

import importlib as _importlib
import logging as _logging
import typing as _typing

from steelyard import errors
from steelyard.model import Message, OffsetRange, Queue, StoredMessage
from steelyard.model.finding import Finding
from steelyard.version import __version__

if _typing.TYPE_CHECKING:
    from steelyard.client.config import ClientConfig
    from steelyard.client.consumer.notifications import Rebalanced
    from steelyard.client.consumer.received_message import ReceivedMessage
    from steelyard.client.observers.observer import Observer
    from steelyard.client.producer.send_result import SendResult
    from steelyard.client.sync.admin import Admin
    from steelyard.client.sync.consumer import Consumer
    from steelyard.client.sync.producer import Producer
    from steelyard.client.sync.pull_consumer import PullConsumer

__all__ = [
    "Admin",
    "ClientConfig",
    "Consumer",
    "Finding",
    "Message",
    "Observer",
    "OffsetRange",
    "Producer",
    "PullConsumer",
    "Queue",
    "Rebalanced",
    "ReceivedMessage",
    "SendResult",
    "StoredMessage",
    "__version__",
    "errors",
]

_LAZY = {
    "Admin": "steelyard.client.sync.admin",
    "ClientConfig": "steelyard.client.config",
    "Consumer": "steelyard.client.sync.consumer",
    "Observer": "steelyard.client.observers.observer",
    "Producer": "steelyard.client.sync.producer",
    "PullConsumer": "steelyard.client.sync.pull_consumer",
    "Rebalanced": "steelyard.client.consumer.notifications",
    "ReceivedMessage": "steelyard.client.consumer.received_message",
    "SendResult": "steelyard.client.producer.send_result",
}


# Handlers are for the program to choose; without this one, logging would print warnings on stderr itself.
_logging.getLogger("steelyard").addHandler(_logging.NullHandler())


def __getattr__(name: str) -> object:
    """Load a client when it is first named."""
    if name not in _LAZY:
        raise AttributeError(f"module 'steelyard' has no attribute {name!r}")
    value: object = getattr(_importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List all names, loaded or not."""
    return sorted({*globals(), *__all__})
