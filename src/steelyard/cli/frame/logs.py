"""What clients have to say while a verb runs: one line each on stderr, as failures are told."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steelyard.cli.frame.screen import visible

__all__ = ["log_on_stderr", "speak_on_stderr"]


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"steelyard: {visible(record.getMessage())}\n")


def speak_on_stderr() -> None:
    """Print warnings that nobody else takes on stderr, as failures are told."""
    logging.lastResort = _Lines(logging.WARNING)


@contextmanager
def log_on_stderr(*, is_quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Print warnings on stderr; quiet, if stderr is for something else. What is yielded makes it quiet from then on."""
    log = logging.getLogger("steelyard")
    handler: logging.Handler = logging.NullHandler() if is_quiet else _Lines(logging.WARNING)
    log.addHandler(handler)

    def hush() -> None:
        handler.setLevel(logging.CRITICAL)

    try:
        yield hush
    finally:
        log.removeHandler(handler)
