"""The process of a task: what is set once in each of Spark's Python workers, which run task after task.

After each task Spark has the garbage collector look through everything there is, and most of that are the modules that
were imported: some 25 ms, more than many a task takes. They stay as long as the process does, so they are put aside.
"""

import gc
from functools import cache

from pyspark import TaskContext

__all__ = ["settle_in"]


def settle_in() -> None:
    """Set up this process if it is a worker; it may be called with each task."""
    if TaskContext.get() is not None:
        _put_aside()


@cache
def _put_aside() -> None:
    gc.freeze()
