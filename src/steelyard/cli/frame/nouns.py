"""Nouns and their verbs as the command line has them, with examples in every help.

A noun is a file with an `app = Noun(…)`, and each of its verbs is a function. Help is plain text: it comes at once, on
a terminal and through a pipe, since nothing has to be loaded to draw it.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Noun", "NounHelp", "VerbHelp", "examples_of", "verb", "with_examples"]

V = TypeVar("V", bound=Callable[..., None])

_EXAMPLES = "__examples__"

_ELSEWHERE = {
    "add": "create",
    "consumer": "consume",
    "consumer-group": "group",
    "del": "delete",
    "describe": "show",
    "diagnose": "doctor",
    "dlq": "dead-letters",
    "edit": "set",
    "get": "show",
    "info": "show",
    "list": "ls",
    "new": "create",
    "nodes": "broker",
    "perf": "bench",
    "produce": "send",
    "pub": "send",
    "publish": "send",
    "read": "consume",
    "remove": "delete",
    "rm": "delete",
    "server": "up",
    "start": "up",
    "status": "doctor",
    "sub": "consume",
    "subscribe": "consume",
    "tail": "consume",
    "update": "set",
    "view": "show",
}
"""What other tools call it."""

_ROOM = 76
"""For an example on a terminal of 80 columns."""
_REMARK, _GOES_ON, _FURTHER = "    # ", " \\", "    "


def verb(*examples: str) -> Callable[[V], V]:
    """Give a verb the examples of its help."""

    def mark(function: V) -> V:
        function.__dict__[_EXAMPLES] = examples
        return function

    return mark


def examples_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Return the examples that a verb was given."""
    found: tuple[str, ...] = getattr(function, _EXAMPLES, ())
    return found


def with_examples(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Put a verb on an app, as its help is to look."""
    # Lines after \b stay as they are; a raw docstring has it as two letters.
    said = (function.__doc__ or "").replace("\\b\n", "\b\n")
    shown = "\n".join(f"  {line}" for each in examples_of(function) for line in _folded(each))
    app.command(name, cls=VerbHelp, help=said, epilog=f"\b\nExamples:\n{shown}" if shown else None)(function)


def _folded(example: str) -> Iterator[str]:
    r"""Yield an example as lines that fit, and that a shell still takes as one; a remark goes before it.

    >>> print(*_folded(f"steelyard send orders --body '{'ho ' * 20}' --tags paid    # thrice, or so"), sep="\n")
    # thrice, or so
    steelyard send orders \
        --body 'ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ' \
        --tags paid
    """
    if len(example) <= _ROOM:
        yield example
        return
    rest, _, remark = example.partition(_REMARK)
    if remark:
        yield f"# {remark}"
    while len(rest) > _ROOM:
        gaps = [gap for gap in _gaps(rest) if len(_FURTHER) < gap <= _ROOM - len(_GOES_ON)]
        if not gaps:
            break
        # Best behind a pipe, or before an option or a file.
        line = rest
        cut = max(gaps, key=lambda gap: (line[gap - 1] == "|", line[gap + 1] in "-<>", gap))
        yield rest[:cut] + _GOES_ON
        rest = _FURTHER + rest[cut + 1 :]
    yield rest


def _gaps(line: str) -> Iterator[int]:
    """Yield where the blanks between words are; those within quotes are part of a word."""
    quote = ""
    for place, letter in enumerate(line):
        if letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and letter == " ":
            yield place


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments, options, and options about something of their own."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(record)
    for name, records in sections.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)


class VerbHelp(TyperCommand):
    """A verb whose options are listed under what they are about."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments and options."""
        _write_parameters(self, ctx, formatter)


class NounHelp(TyperGroup):
    """A noun, which lists its verbs first: that is what somebody asks for. Alone it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the noun."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb; a word that other tools use leads to ours."""
        meant = _ELSEWHERE.get(args[0].lower()) if args else None
        if meant in self.commands and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the verbs, then the options."""
        self.format_commands(ctx, formatter)
        _write_parameters(self, ctx, formatter)


class Noun(typer.Typer):
    """A noun of the command line.

    >>> from typer.main import get_group
    >>> shelf = Noun("shelf", "Look after shelves.")
    >>> @shelf.verb("ls", "steelyard shelf ls")
    ... def show() -> None:
    ...     '''List shelves.'''
    >>> list(get_group(shelf).commands)
    ['ls']
    """

    def __init__(self, name: str, about: str) -> None:
        super().__init__(name=name, help=about, add_completion=False, rich_markup_mode=None, cls=NounHelp)

    def verb(self, name: str, *examples: str) -> Callable[[V], V]:
        """Add a verb; its examples are whole command lines."""

        def add(function: V) -> V:
            with_examples(self, name, verb(*examples)(function))
            return function

        return add
