"""Where people read: what is printed comes out as it is, and a failure is one line.

Names and bodies are the users' own, so nothing in them is markup, the code of an emoji or a command to the terminal,
and a character that the terminal cannot show is shown by its number. A reader who has seen enough, such as `head`, is
no failure; a full disk is.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from typing import TYPE_CHECKING, Literal

from steelyard.cli.frame.exits import Exit

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Progress", "note", "open_missing_streams", "refuse", "screen", "shown", "visible", "visible_json"]

_EVERY_SECONDS = 0.2
_ANY_WIDTH = 10_000


def screen() -> "Console":
    """Return the console that every verb prints on."""
    # Here and not above: help and answers for programs do without.
    from rich.console import Console

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # Into a file or a pipe lines are as long as they are, unless somebody says how wide it is.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _ANY_WIDTH
    # Rich takes NO_COLOR by the letter, and would go on with bold.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(markup=False, emoji=False, highlight=False, width=width, color_system=colors)


def open_missing_streams() -> None:
    """Give a command whose stdin, stdout or stderr was closed one that leads nowhere.

    Otherwise the next thing opened gets its number: a line to a broker would be taken for the terminal.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode))


def visible(text: str) -> str:
    r"""Return a text as one line that no terminal takes for a command.

    >>> visible("a\tb\x1b[2J\n")
    'a\\tb\\x1b[2J\\n'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def visible_json(line: str) -> str:
    r"""Return a line of JSON in which nothing is a command to a terminal: such characters by their numbers.

    >>> print(visible_json('{"name":"a2J"}'))
    {"name":"a\u009b2J"}
    """
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def refuse(what: str, code: Exit = Exit.USAGE) -> int:
    """Say in one line on stderr why there is no answer, and return the exit code."""
    print("steelyard:", visible(" ".join(what.split())), file=sys.stderr)
    return code


def note(text: str) -> None:
    """Tell a person something that is not the answer: one line on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def shown(show: Callable[[], int]) -> int:
    """Print something and return the exit code, also if what is printed cannot be written."""
    try:
        return show()
    except (OSError, SystemExit) as error:
        # Typer and rich leave the process when they meet a closed pipe; the reason is what they were handling. An
        # error that names a file is none of writing an answer.
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(cause, OSError) or cause.filename is not None:
            raise
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(cause, BrokenPipeError):
            return 0
        return refuse(f"the answer cannot be written ({cause.strerror}); make room, or write it elsewhere")


class Progress:
    """How far the work is: one line on stderr, if somebody sits there; nothing for work that is done at once."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY_SECONDS
        self._width = 0

    def tell(self, line: Callable[[], str]) -> None:
        """Show how far it is, a few times a second."""
        if self._is_seen and (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECONDS
            text = line()
            self._width = max(self._width, len(text))
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Wipe the line."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0
