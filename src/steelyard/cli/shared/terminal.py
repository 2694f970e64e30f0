"""The terminal: a console for people, errors and notes on stderr, a progress line, warnings of clients, signals.

Names and bodies come from users, so nothing in them is markup, an emoji code or a control sequence; characters that the
terminal cannot encode are escaped. A reader that closes the pipe, such as `head`, is no failure; a full disk is.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, Literal

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.errors import file_error
from steelyard.model.formatting import printable

if TYPE_CHECKING:
    from rich.console import Console

_UPDATE_EVERY_S = 0.2
_UNLIMITED_WIDTH = 10_000


def make_console() -> "Console":
    """Return the console on stdout."""
    # Imported here: help and output for programs do not need rich.
    from rich.console import Console

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # Lines are not wrapped in a file or pipe, unless COLUMNS gives a width.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _UNLIMITED_WIDTH
    # NO_COLOR alone would leave bold in rich.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(markup=False, emoji=False, highlight=False, width=width, color_system=colors)


def open_missing_streams() -> None:
    """Open /dev/null for stdin, stdout or stderr that was closed.

    Otherwise the next file descriptor gets its number: output would go into a connection to a broker.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode))


def printable_json(line: str) -> str:
    r"""Return a line of JSON with control characters escaped.

    >>> print(printable_json('{"name":"a2J"}'))
    {"name":"a\u009b2J"}
    """
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def print_error(message: str, code: ExitCode = ExitCode.USAGE) -> int:
    """Print an error as one line on stderr, and return the exit code."""
    print("steelyard:", printable(" ".join(message.split())), file=sys.stderr)
    return code


def print_note(text: str) -> None:
    """Print a note for people that is not the result: one line on stderr."""
    print(printable(text), file=sys.stderr, flush=True)


def guard_output(run: Callable[[], int]) -> int:
    """Run a command and return its exit code, also if its output cannot be written."""
    try:
        return run()
    except (OSError, SystemExit) as error:
        # Rich exits on a closed pipe; the cause is the error it handled. An error that names a file is not
        # about stdout.
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(cause, OSError) or cause.filename is not None:
            raise
        # Otherwise Python fails again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(cause, BrokenPipeError):
            return 0
        return print_error(str(file_error("the output cannot be written", cause, "write it elsewhere")))


class ProgressLine:
    """Progress on one line of stderr, if that is a terminal; nothing for work that is done at once."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next_update = time.monotonic() + _UPDATE_EVERY_S
        self._width = 0

    def update(self, make_text: Callable[[], str]) -> None:
        """Redraw the line, at most a few times a second."""
        if self._is_terminal and (now := time.monotonic()) >= self._next_update:
            self._next_update = now + _UPDATE_EVERY_S
            text = make_text()
            self._width = max(self._width, len(text))
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"steelyard: {printable(record.getMessage())}\n")


def warn_on_stderr() -> None:
    """Print warnings that no other handler takes on stderr, one line each."""
    log = logging.getLogger("steelyard")
    for silent in [each for each in log.handlers if isinstance(each, logging.NullHandler)]:
        log.removeHandler(silent)  # the library's own: the program is this one
    logging.lastResort = _StderrHandler(logging.WARNING)


@contextmanager
def stderr_warnings(*, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Print warnings on stderr, unless ``quiet``. The yielded function makes it quiet from then on."""
    log = logging.getLogger("steelyard")
    handler: logging.Handler = logging.NullHandler() if quiet else _StderrHandler(logging.WARNING)
    log.addHandler(handler)

    def hush() -> None:
        handler.setLevel(logging.CRITICAL)

    try:
        yield hush
    finally:
        log.removeHandler(handler)


class StopSignal:
    """Whether to stop, and the error if one is the reason. Any thread may set it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.error: BaseException | None = None

    def __bool__(self) -> bool:
        """Return whether it is set."""
        return self._event.is_set()

    def set(self, error: BaseException | None = None) -> None:
        """Ask to stop; the first error is kept."""
        if not self._event.is_set():
            self.error = error
            self._event.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set; return False after a timeout."""
        return self._event.wait(seconds)


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Handle Ctrl-C and SIGTERM as a request to stop, until the block ends. A second one interrupts at once."""
    stop = StopSignal()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop:
            signal.default_int_handler(number, frame)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
