"""Commands and groups of them on click: plain help with examples, other tools' names, errors as one line.

A module of one command has a function marked by ``@command(…)``, one of several has ``app = CommandGroup(…)`` and
functions marked by ``@app.subcommand(…)``. Help is plain text: loading rich to draw it would make it slow.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
from click.exceptions import Exit

from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for
from steelyard.cli.shared.options import PROVIDERS
from steelyard.cli.shared.parameters import PanelOption, bind
from steelyard.cli.shared.terminal import print_error
from steelyard.errors import SteelyardError

COMPLETE_VARIABLE = "_STEELYARD_COMPLETE"

V = TypeVar("V", bound=Callable[..., None])

_OTHER_TOOLS_NAMES = {
    "bench": "perf",
    "broker": "nodes",
    "consume": "read sub subscribe tail",
    "create": "add new",
    "dead-letters": "dlq",
    "delete": "del remove rm",
    "doctor": "diagnose",
    "group": "consumer-group",
    "ls": "list",
    "send": "produce pub publish",
    "set": "edit update",
    "show": "describe get info view",
    "up": "start",
}
"""Our names, and those that other tools use: they run ours."""
_OUR_NAMES = {theirs: ours for ours, names in _OTHER_TOOLS_NAMES.items() for theirs in names.split()}
_AMBIGUOUS_NAMES = {"consumer": ("consume", "group"), "server": ("up", "broker"), "status": ("doctor", "cluster")}
"""Names of other tools that may mean one or the other of ours."""

_EXAMPLE_WIDTH = 76
"""An example fits a terminal of 80 columns."""
_REMARK_MARK, _CONTINUATION, _CONTINUATION_INDENT = "    # ", " \\", "    "


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


class _PanelCommand(click.Command):
    """A command whose options are listed by panel."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List arguments and options."""
        _write_parameter_sections(self, ctx, formatter)


_PANEL_ORDER = {"Output": 1, "Cluster": 2}


def _write_parameter_sections(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write arguments, options, options that have a panel of their own, and last those that commands share."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx)
        if record is not None:
            panel = each.panel if isinstance(each, PanelOption) else "Options"
            sections.setdefault("Arguments" if isinstance(each, click.Argument) else panel, []).append(record)
    for name in sorted(sections, key=lambda name: _PANEL_ORDER.get(name, 0)):
        if sections[name]:
            with formatter.section(name):
                formatter.write_dl(sections[name])


def make_command(name: str, function: Callable[..., None], *examples: str) -> click.Command:
    r"""Make a command of a function: its parameters as the annotations say, and the examples at the end of the help.

    >>> make_command("greet", lambda: None, "steelyard greet").epilog
    '\x08\nExamples:\n  steelyard greet'
    """
    bound = bind(function, PROVIDERS)

    def run(**given: Any) -> None:
        function(**{each: binding.make(given) for each, binding in bound.items()})

    # Once each: an open `Admin` and the `ClientOptions` are made of the same options.
    parameters = dict.fromkeys(parameter for each in bound.values() for parameter in each.parameters)
    shown = "\n".join(f"  {line}" for each in examples for line in _wrap_example(each))
    return _PanelCommand(
        name,
        callback=run,
        params=list(parameters),
        # Lines after \b are not wrapped; a raw docstring has \b as two characters.
        help=(function.__doc__ or "").replace("\\b\n", "\b\n"),
        epilog=f"\b\nExamples:\n{shown}" if shown else None,
    )


def command(*examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that has its name; its examples are whole command lines."""
    return lambda function: make_command(function.__name__.strip("_"), function, *examples)


class PanelGroup(click.Group):
    """A group that lists its subcommands before its options, and shows its help without arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if there are no arguments."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands as they were declared."""
        del ctx
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand, also by the name that other tools use."""
        name, *rest = args
        names = self.list_commands(ctx)
        ours = _OUR_NAMES.get(name.lower(), name)
        if name in names or ours in names:
            return super().resolve_command(ctx, [name if name in names else ours, *rest])
        if name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = [each for each in _AMBIGUOUS_NAMES.get(name.lower(), ()) if each in names]
        near = near or get_close_matches(name, names, 1)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands, then the options."""
        self.format_commands(ctx, formatter)
        _write_parameter_sections(self, ctx, formatter)


class CommandGroup(PanelGroup):
    """A group of subcommands.

    >>> shelf = CommandGroup("shelf", "Manage shelves.")
    >>> @shelf.subcommand("ls", "steelyard shelf ls")
    ... def show() -> None:
    ...     '''List shelves.'''
    >>> list(shelf.commands)
    ['ls']
    """

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(name, help=summary)

    def subcommand(self, name: str, *examples: str) -> Callable[[V], V]:
        """Add a subcommand; its examples are whole command lines."""

        def add(function: V) -> V:
            self.add_command(make_command(name, function, *examples))
            return function

        return add


def run_app(app: click.Command, words: list[str], name: str) -> int:
    """Run a command line and return its exit code: an error is one line, Ctrl-C is quiet."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(app, {}, name, COMPLETE_VARIABLE, instruction)
    try:
        # Not `app.main`, which hides that a pipe was closed.
        with app.make_context(name, words) as ctx:
            app.invoke(ctx)
    except Exit as end:
        return end.exit_code
    except SteelyardError as error:
        return print_error(str(error), exit_code_for(error))
    except click.UsageError as error:
        message = error.format_message().rstrip(".")
        path = name if error.ctx is None else error.ctx.command_path
        return print_error(f"{message}{' See' if message.endswith('?') else '; see'}: {path} --help")
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)  # after the terminal's ^C
        return ExitCode.INTERRUPTED
    return ExitCode.DONE
