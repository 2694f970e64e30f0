"""Set-up of Spark's Python worker processes, which run task after task.

After each task Spark runs the garbage collector, which walks through all imported modules: some 25 ms, more than many a
task takes. They live as long as the process does, so they are frozen.

No program of a user's runs in a process that Spark starts, so none sets up its log: warnings go to stderr there, which
is Spark's log of an executor, or of the driver.
"""

import gc
import logging
import sys
from functools import cache

from pyspark import TaskContext


def prepare_worker() -> None:
    """Set up this process if it is a worker; may be called for each task."""
    if TaskContext.get() is not None:
        _freeze_modules()


@cache
def _freeze_modules() -> None:
    gc.freeze()


def _log_on_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("steelyard").addHandler(handler)


_main = getattr(sys.modules["__main__"], "__spec__", None)
if _main is not None and _main.name.startswith("pyspark."):
    _log_on_stderr()
