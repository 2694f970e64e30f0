"""Whether a command line is one that `steelyard` takes: its subcommand, options and their values; it is not run."""

import re
import shlex

import click

from steelyard.cli.main import app

_LINE = re.compile(r"`(steelyard [^`]+)`")


def lines_in(text: str) -> list[str]:
    """Return the command lines that stand in a text between backticks."""
    return _LINE.findall(text)


def complaint_about(line: str) -> str | None:
    """Say what is wrong with a command line; None if it would run. What comes behind a pipe is not looked at."""
    words = shlex.split(re.split(r" [|>] ", line)[0])
    command: click.Command = app
    path = words.pop(0)
    while isinstance(command, click.Group):
        name = words.pop(0) if words else "(none is given)"
        found = command.get_command(click.Context(command), name)
        if found is None:
            return f"`{path}` has no subcommand {name}"
        path, command = f"{path} {name}", found
    try:
        command.make_context(path, words)
    except click.ClickException as error:
        return f"`{line}`: {error.format_message()}"
    return None
