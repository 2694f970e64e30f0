"""What is measured, and how it is written for Prometheus; `ClientMetrics` counts what the clients of this process do.

Importing this loads no client: brokers and the dashboard use the modules below it.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steelyard.client.observers.client_metrics import CLIENT_METRICS, ClientMetrics

__all__ = ["CLIENT_METRICS", "ClientMetrics"]


def __getattr__(name: str) -> object:
    """Load the observer when it is first named."""
    if name not in __all__:
        raise AttributeError(f"module 'steelyard.metrics' has no attribute {name!r}")
    return getattr(_importlib.import_module("steelyard.client.observers.client_metrics"), name)
