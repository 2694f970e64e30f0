"""A message queue for tests: the pytest fixtures `mq`, `mq_async`, `mq_cluster` and `mq_external`; or `cluster`.

Importing this loads next to nothing: names are loaded on first use. pytest is needed for the fixtures alone.

>>> from steelyard.testing import cluster
>>> with cluster() as mq:
...     sent = mq.send("orders", b"{}")
...     len(mq.sent("orders"))
1
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steelyard.testing.external_cluster import ExternalMq, external
    from steelyard.testing.mq import Mq, MqAsync, cluster

__all__ = ["ExternalMq", "Mq", "MqAsync", "cluster", "external"]

_LATE = {
    "ExternalMq": "steelyard.testing.external_cluster",
    "Mq": "steelyard.testing.mq",
    "MqAsync": "steelyard.testing.mq",
    "cluster": "steelyard.testing.mq",
    "external": "steelyard.testing.external_cluster",
}


def __getattr__(name: str) -> object:
    """Load a name on first use."""
    if name not in _LATE:
        raise AttributeError(f"module 'steelyard.testing' has no attribute {name!r}")
    return getattr(_importlib.import_module(_LATE[name]), name)
