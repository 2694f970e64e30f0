"""Command groups and subcommands on top of typer: plain help with examples, hints for other tools' names, errors.

A group is a module with ``app = CommandGroup(…)``, and each subcommand a function. Help is plain text: loading rich to
draw it would make it slow.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for
from steelyard.cli.shared.options import with_shared_options
from steelyard.cli.shared.terminal import print_error
from steelyard.errors import SteelyardError

V = TypeVar("V", bound=Callable[..., None])

COMPLETE_VARIABLE = "_STEELYARD_COMPLETE"
_EXAMPLES_ATTRIBUTE = "__examples__"

_OTHER_TOOLS_NAMES = {
    "bench": "perf",
    "broker": "nodes",
    "consume": "consumer read sub subscribe tail",
    "create": "add new",
    "dashboard": "page",
    "dead-letters": "dlq",
    "delete": "del remove rm",
    "doctor": "diagnose status",
    "group": "consumer-group",
    "ls": "list",
    "send": "produce pub publish",
    "set": "edit update",
    "show": "describe get info view",
    "up": "server start",
}
"""Our names, and those that other tools use."""
_OTHER_TOOLS_COMMANDS = {theirs: ours for ours, names in _OTHER_TOOLS_NAMES.items() for theirs in names.split()}

_EXAMPLE_WIDTH = 76
"""An example fits a terminal of 80 columns."""
_REMARK_MARK, _CONTINUATION, _CONTINUATION_INDENT = "    # ", " \\", "    "


def help_examples(*examples: str) -> Callable[[V], V]:
    """Attach examples to a command, for its help."""

    def mark(function: V) -> V:
        function.__dict__[_EXAMPLES_ATTRIBUTE] = examples
        return function

    return mark


def _examples_of(command: Callable[..., None]) -> tuple[str, ...]:
    """Return the examples of a command."""
    found: tuple[str, ...] = getattr(command, _EXAMPLES_ATTRIBUTE, ())
    return found


def add_command(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add a command to an app, with the options of what it is passed, and its examples at the end of the help."""
    # Lines after \b are not wrapped; a raw docstring has \b as two characters.
    text = (command.__doc__ or "").replace("\\b\n", "\b\n")
    shown = "\n".join(f"  {line}" for each in _examples_of(command) for line in _wrap_example(each))
    add = app.command(name, cls=_PanelCommand, help=text, epilog=f"\b\nExamples:\n{shown}" if shown else None)
    add(with_shared_options(command))


def _wrap_example(example: str) -> Iterator[str]:
    r"""Yield an example as lines that fit and are still one command for a shell; a remark goes before it.

    >>> print(*_wrap_example(f"steelyard send orders --body '{'ho ' * 20}' --tags paid    # thrice, or so"), sep="\n")
    # thrice, or so
    steelyard send orders \
        --body 'ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ho ' \
        --tags paid
    """
    if len(example) <= _EXAMPLE_WIDTH:
        yield example
        return
    rest, _, remark = example.partition(_REMARK_MARK)
    if remark:
        yield f"# {remark}"
    while len(rest) > _EXAMPLE_WIDTH:
        gaps = [
            gap for gap in _word_gaps(rest) if len(_CONTINUATION_INDENT) < gap <= _EXAMPLE_WIDTH - len(_CONTINUATION)
        ]
        if not gaps:
            break
        # Preferably after a pipe, or before an option or a redirection.
        line = rest
        cut = max(gaps, key=lambda gap: (line[gap - 1] == "|", line[gap + 1] in "-<>", gap))
        yield rest[:cut] + _CONTINUATION
        rest = _CONTINUATION_INDENT + rest[cut + 1 :]
    yield rest


def _word_gaps(line: str) -> Iterator[int]:
    """Yield the positions of blanks between words, but not those within quotes."""
    quote = ""
    for place, letter in enumerate(line):
        if letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and letter == " ":
            yield place


def _write_parameter_sections(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments, options, and options that have a panel of their own."""
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


class _PanelCommand(TyperCommand):
    """A command whose options are listed by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments and options."""
        _write_parameter_sections(self, ctx, formatter)


class PanelGroup(TyperGroup):
    """A group that lists its subcommands before its options, and shows its help without arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if there are no arguments."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a subcommand; for a name that other tools use, suggest ours."""
        meant = _OTHER_TOOLS_COMMANDS.get(args[0].lower()) if args else None
        if meant in self.commands and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands, then the options."""
        self.format_commands(ctx, formatter)
        _write_parameter_sections(self, ctx, formatter)


class CommandGroup(typer.Typer):
    """A group of subcommands.

    >>> from typer.main import get_group
    >>> shelf = CommandGroup("shelf", "Manage shelves.")
    >>> @shelf.subcommand("ls", "steelyard shelf ls")
    ... def show() -> None:
    ...     '''List shelves.'''
    >>> list(get_group(shelf).commands)
    ['ls']
    """

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(name=name, help=summary, add_completion=False, rich_markup_mode=None, cls=PanelGroup)

    def subcommand(self, name: str, *examples: str) -> Callable[[V], V]:
        """Add a subcommand; its examples are whole command lines."""

        def add(function: V) -> V:
            add_command(self, name, help_examples(*examples)(function))
            return function

        return add


# What typer raises for an unknown option, a missing one or a value it cannot read.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def run_app(app: typer.Typer, words: list[str], name: str) -> int:
    """Run a command line and return its exit code: an error is one line, Ctrl-C is quiet."""
    if os.environ.get(COMPLETE_VARIABLE):
        from typer._completion_classes import completion_init

        completion_init()
    try:
        code = app(args=words, prog_name=name, standalone_mode=False)
    except SteelyardError as error:
        return print_error(str(error), exit_code_for(error))
    except _UsageError as error:
        message = getattr(error, "format_message", error.__str__)().rstrip(".")
        return print_error(
            f"{message}{' See' if message.endswith('?') else '; see'}: {_command_path(error, name)} --help"
        )
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else 0


def _command_path(error: Exception, name: str) -> str:
    """Return the command whose arguments are wrong."""
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else name
