"""Topics as Spark's DataFrames, batch and streaming: ``format("rocketmq")``.

Importing this is quick: Spark itself is loaded when a name below is first used.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steelyard.spark.lag import Lag, ProgressLog
    from steelyard.spark.source import RocketMQSource
    from steelyard.spark.spark_session import prepare, session

__all__ = ["Lag", "ProgressLog", "RocketMQSource", "prepare", "session"]

_LATE = {
    "Lag": "steelyard.spark.lag",
    "ProgressLog": "steelyard.spark.lag",
    "RocketMQSource": "steelyard.spark.source",
    "prepare": "steelyard.spark.spark_session",
    "session": "steelyard.spark.spark_session",
}


def __getattr__(name: str) -> object:
    """Load a name on first use."""
    if name not in _LATE:
        raise AttributeError(f"module 'steelyard.spark' has no attribute {name!r}")
    found: object = getattr(_importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List all names, loaded or not."""
    return sorted({*globals(), *__all__})
