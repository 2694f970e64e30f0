"""Whether a command line is one that `steelyard` takes: its subcommand, options and their values; it is not run."""

import re
import shlex
from typing import Any

from typer.main import get_group

from steelyard.cli.main import app

_ROOT = get_group(app)
_LINE = re.compile(r"`(steelyard [^`]+)`")


def lines_in(text: str) -> list[str]:
    """Return the command lines that stand in a text between backticks."""
    return _LINE.findall(text)


def complaint_about(line: str) -> str | None:
    """Say what is wrong with a command line; None if it would run. What comes behind a pipe is not looked at."""
    words = shlex.split(re.split(r" [|>] ", line)[0])
    command: Any = _ROOT
    path = words.pop(0)
    while (inner := getattr(command, "commands", None)) is not None:
        if not words or words[0] not in inner:
            return f"`{path}` has no subcommand {words[0] if words else '(none is given)'}"
        path = f"{path} {words[0]}"
        command = inner[words.pop(0)]
    try:
        command.make_context(path, words)
    except Exception as error:
        # A foreign library's errors, of several kinds: whatever it is, the line is not taken.
        return f"`{line}`: {getattr(error, 'format_message', error.__str__)()}"
    return None
