"""The command line as a tree of nouns and verbs, looked at without running anything."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from typer.main import get_command

from steelyard.cli.main import app


class Verb(NamedTuple):
    """A verb: the words that it is called by, and what the command line knows of it."""

    words: tuple[str, ...]
    """Such as topic, ls; a noun without verbs is one word."""
    command: Any
    noun: Any
    """What it is a verb of; the command line itself, where it stands alone."""


@cache
def root() -> Any:
    """Return the command line, loaded once."""
    return get_command(app)


def context_of(command: Any, name: str = "steelyard") -> Any:
    """Return what a command wants to be asked with."""
    return command.context_class(command, info_name=name)


def verbs(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[Verb]:
    """Find every verb, in the order of the help."""
    command = root() if command is None else command
    context = context_of(command)
    for name in list(command.commands):
        found = command.get_command(context, name)
        if found is None or found.hidden:
            continue
        if hasattr(found, "list_commands"):
            yield from verbs(found, (*words, name))
        else:
            yield Verb((*words, name), found, command)
