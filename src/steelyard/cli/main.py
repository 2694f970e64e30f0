"""The command `steelyard`: its subcommands, each in a module that is loaded when it is used, so that help is fast.

A failure is one line on stderr (what, where, what to do next) and an exit code for its kind
(`cli/shared/exit_codes.py`).
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from steelyard.cli.shared.commands import PanelGroup, add_command, run_app
from steelyard.cli.shared.terminal import guard_output, open_missing_streams
from steelyard.version import __version__

COMMANDS: dict[str, dict[str, str]] = {
    "Run and use a cluster": {
        "up": "Run a name server and brokers here, with a dashboard, until Ctrl-C.",
        "dashboard": "Show a cluster in the browser, ours or Apache's, until Ctrl-C.",
        "send": "Send messages: one, many, or a pipe.",
        "consume": "Print messages as they arrive.",
        "message": "Find messages, trace them, and have them redelivered.",
        "dead-letters": "Show messages that groups gave up, and redeliver them.",
    },
    "Administer a cluster": {
        "topic": "List and describe topics, create, change and delete them.",
        "group": "Show consumer groups: who owns which queue and why, and the lag; change groups.",
        "member": "Show the members of a group.",
        "offset": "Show committed offsets of groups, and reset them.",
        "producer": "List producers, and the latency they measure.",
        "broker": "List and describe brokers, change their settings, stop and allow writes.",
        "cluster": "Show the whole cluster: brokers, name servers, throughput, latency.",
        "access": "Users and what they may do.",
    },
    "Diagnose and measure": {
        "plan": "Show which queue each member would get, and what would move; nothing changes.",
        "doctor": "Find out why something does not work.",
        "check": "Check health in one line, for monitoring.",
        "bench": "Measure the throughput and latency of a cluster.",
        "store": "Inspect a broker's directory, or prepare it for an Apache broker.",
    },
    "More": {
        "pipeline": "Run jobs on topics with Spark, here or on a cluster.",
        "context": "Name clusters, and choose the one to use.",
        "completion": "Print a script for shell completion, which knows topics and groups.",
    },
}
"""Each command by its purpose, with its summary; its module has the name of the command."""


class _LazyCommands(dict[str, Any]):
    """The subcommands by name, each loaded when it is first used."""

    def __init__(self) -> None:
        super().__init__({name: None for panel in COMMANDS.values() for name in panel})

    def __getitem__(self, name: str) -> Any:
        if name in self and super().__getitem__(name) is None:
            self[name] = _load_command(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a subcommand, loaded, or the default if there is none of this name."""
        return self[name] if name in self else default


def _load_command(name: str) -> Any:
    module = import_module(f"steelyard.cli.{name.replace('-', '_')}")
    if hasattr(module, "app"):
        return get_group(module.app)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    add_command(single, name, getattr(module, name))
    command = get_command(single)
    command.name = name
    return command


class _RootGroup(PanelGroup):
    """The command itself, which lists its subcommands without loading them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands."""
        del ctx
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the name of a subcommand from the table, without loading any."""
        loaded = self.commands
        self.commands = {
            name: TyperCommand(name, help=summary) for panel in COMMANDS.values() for name, summary in panel.items()
        }
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands by purpose."""
        del ctx
        widest = max(len(name) for panel in COMMANDS.values() for name in panel)
        for title, panel in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", summary) for name, summary in panel.items()])


app = typer.Typer(
    name="steelyard",
    help="Load-balanced messaging: clusters, messages, consumer groups, and how queues are assigned.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=_RootGroup,
    epilog="\b\nExamples:\n  steelyard up --brokers 2\n  steelyard send orders --body hello\n"
    "  steelyard consume orders --from first --json\n  steelyard group explain billing\n  steelyard doctor",
)


@app.callback(invoke_without_command=True)
def _root_options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; without arguments it shows its help."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["help"], ["version"]):
        # As with other tools: `steelyard help topic` is `steelyard topic --help`.
        words = [*words[1:], f"--{words[0]}"]
    if arguments is None:  # a caller with arguments of its own has its own streams
        open_missing_streams()
    return guard_output(lambda: run_app(app, words, "steelyard"))
