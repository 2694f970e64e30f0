"""Where people read: what is printed comes out as it is, and a failure is one line.

Names are the users' own, so nothing in them is markup or the code of an emoji, and a character that the terminal cannot
show is shown by its number. A reader who has seen enough, such as `head`, is no failure; a full disk is.
"""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from rich.console import Console

__all__ = ["BAD_INPUT", "refuse", "screen", "shown"]

BAD_INPUT = 2
"""The exit code of a question that cannot be answered."""


def screen() -> Console:
    """Return the console that every verb prints on."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(markup=False, emoji=False, highlight=False)


def refuse(what: str) -> int:
    """Say in one line on stderr why there is no answer, and return the exit code."""
    print("steelyard:", " ".join(what.split()), file=sys.stderr)
    return BAD_INPUT


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
