"""The command line as a tree of nouns and verbs, looked at without running anything."""

from collections.abc import Iterator
from typing import NamedTuple

import click

from steelyard.cli.main import app


class Verb(NamedTuple):
    """A verb: the words that it is called by, and what the command line knows of it."""

    words: tuple[str, ...]
    """Such as topic, ls; a noun without verbs is one word."""
    command: click.Command


def context_of(command: click.Command, name: str = "steelyard") -> click.Context:
    """Return what a command wants to be asked with."""
    return click.Context(command, info_name=name)


def commands(command: click.Command = app, words: tuple[str, ...] = ()) -> Iterator[Verb]:
    """Find every command, in the order of the help, with the nouns that have verbs."""
    yield Verb(words, command)
    if isinstance(command, click.Group):
        context = context_of(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from commands(found, (*words, name))


def verbs() -> Iterator[Verb]:
    """Find every verb."""
    return (each for each in commands() if not isinstance(each.command, click.Group))
