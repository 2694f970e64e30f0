"""A message queue in a test: for pytest the fixtures `mq`, `mq_async`, `mq_cluster` and `mq_external`; else `cluster`.

Importing this loads next to nothing: what is named is loaded then. pytest itself is needed for the fixtures alone.

>>> from steelyard.testing import cluster
>>> with cluster() as mq:
...     sent = mq.send("orders", b"{}")
...     len(mq.sent("orders"))
1
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steelyard.testing.awaiting import MqAsync
    from steelyard.testing.elsewhere import ExternalMq, external
    from steelyard.testing.mq import Mq, cluster

__all__ = ["ExternalMq", "Mq", "MqAsync", "cluster", "external"]

_LATE = {
    "ExternalMq": "steelyard.testing.elsewhere",
    "Mq": "steelyard.testing.mq",
    "MqAsync": "steelyard.testing.awaiting",
    "cluster": "steelyard.testing.mq",
    "external": "steelyard.testing.elsewhere",
}


def __getattr__(name: str) -> object:
    """Load what is named when it is first named."""
    if name not in _LATE:
        raise AttributeError(f"module 'steelyard.testing' has no attribute {name!r}")
    return getattr(_importlib.import_module(_LATE[name]), name)
