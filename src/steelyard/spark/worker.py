"""Set-up of Spark's Python worker processes, which run task after task.

After each task Spark runs the garbage collector, which walks through all imported modules: some 25 ms, more than many a
task takes. They live as long as the process does, so they are frozen.
"""

import gc
from functools import cache

from pyspark import TaskContext


def prepare_worker() -> None:
    """Set up this process if it is a worker; may be called for each task."""
    if TaskContext.get() is not None:
        _freeze_modules()


@cache
def _freeze_modules() -> None:
    gc.freeze()
