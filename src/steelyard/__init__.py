"""Messaging that balances itself, for Python and Spark.

Importing this is quick and pulls in neither Spark nor anything for the screen.

>>> from steelyard import Message
>>> Message("orders", b"{}", tags="paid").topic
'orders'
"""

from steelyard import errors
from steelyard.model import Message, OffsetRange, Queue, StoredMessage
from steelyard.version import __version__

__all__ = ["Message", "OffsetRange", "Queue", "StoredMessage", "__version__", "errors"]
