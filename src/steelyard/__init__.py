"""Messaging that balances itself, for Python and Spark.

Importing this is quick: the clients are loaded when they are first named, and neither Spark nor anything for the screen
is loaded at all. The same clients for asyncio are in `steelyard.aio`.

>>> from steelyard import Message
>>> Message("orders", b"{}", tags="paid").topic
'orders'
"""

import importlib as _importlib
import typing as _typing

from steelyard import errors
from steelyard.model import Message, OffsetRange, Queue, StoredMessage
from steelyard.version import __version__

if _typing.TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin
    from steelyard.client.blocking.consumer import Consumer
    from steelyard.client.blocking.producer import Producer
    from steelyard.client.blocking.puller import Puller
    from steelyard.client.connect import Connect
    from steelyard.client.consuming.news import Hazard, Moved
    from steelyard.client.consuming.received import Received
    from steelyard.client.observing.observer import Observer
    from steelyard.client.producing.sent import Sent

__all__ = [
    "Admin",
    "Connect",
    "Consumer",
    "Hazard",
    "Message",
    "Moved",
    "Observer",
    "OffsetRange",
    "Producer",
    "Puller",
    "Queue",
    "Received",
    "Sent",
    "StoredMessage",
    "__version__",
    "errors",
]

_LATE = {
    "Admin": "steelyard.client.blocking.admin",
    "Connect": "steelyard.client.connect",
    "Consumer": "steelyard.client.blocking.consumer",
    "Hazard": "steelyard.client.consuming.news",
    "Moved": "steelyard.client.consuming.news",
    "Observer": "steelyard.client.observing.observer",
    "Producer": "steelyard.client.blocking.producer",
    "Puller": "steelyard.client.blocking.puller",
    "Received": "steelyard.client.consuming.received",
    "Sent": "steelyard.client.producing.sent",
}


def __getattr__(name: str) -> object:
    """Load a client when it is first named."""
    if name not in _LATE:
        raise AttributeError(f"module 'steelyard' has no attribute {name!r}")
    found: object = getattr(_importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List what there is to be named, loaded or not."""
    return sorted({*globals(), *__all__})
