"""What Spark raises as errors of one tree, each a sentence.

What our own code said in another process (a task, or the source's process of the driver) comes back as text, inside of
Java's stack and Python's: it is found there, and is an error of its own class again. What Spark says itself is told
without its stacks.
"""

import re

from steelyard import errors
from steelyard.errors import ConfigurationError, JobFailed, SteelyardError

__all__ = ["as_ours", "wrong_query"]

_OURS = re.compile(r"steelyard\.errors\.(?:\w+\.)?(\w+): (.+)")
_MOST = 600


def as_ours(error: BaseException) -> SteelyardError:
    r"""Return the error that says what happened; for what Spark says itself that is JobFailed.

    >>> as_ours(RuntimeError("Job aborted.\n  steelyard.errors.NoNameServer: nobody is there; start one\n at java"))
    NoNameServer('nobody is there; start one')
    """
    if isinstance(error, SteelyardError):
        return error
    text = str(error)
    for name, sentence in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SteelyardError):
            said = sentence.strip()
            again = kind.__new__(kind, said)
            again.args, again.what = (said,), said
            return again
    return JobFailed(f"Spark failed: {_first_lines(text)}", next_step="mend that, and run it again: it goes on")


def wrong_query(what: str, error: Exception) -> ConfigurationError:
    """Return the error for a query that Spark does not understand."""
    return ConfigurationError(f"{what} cannot be run: {_first_lines(str(error))}", next_step="mend it")


def _first_lines(text: str) -> str:
    """Return what an error of Spark says, up to its stacks and plans."""
    said = re.split(r"\n\s*(?:at |Traceback|JVM stacktrace|== )|;\n|\n\n", text, maxsplit=1)[0]
    line = " ".join(said.split()).rstrip(".")
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"
