"""The command `steelyard`: its subcommands, each in a module that is loaded when it is used, so that help is fast.

A failure is one line on stderr (what, where, what to do next) and an exit code for its kind
(`cli/shared/exit_codes.py`).
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from steelyard.cli.shared.commands import PanelGroup, run_app
from steelyard.cli.shared.terminal import guard_output, open_missing_streams
from steelyard.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


class _RootGroup(PanelGroup):
    """The command itself, which lists its subcommands without loading them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        del ctx
        return [name for panel in COMMANDS.values() for name in panel]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, loaded when it is first used; None if there is none of this name."""
        if cmd_name not in self.commands and cmd_name in self.list_commands(ctx):
            python_name = cmd_name.replace("-", "_")
            module = import_module(f"steelyard.cli.{python_name}")
            self.add_command(getattr(module, "app", None) or getattr(module, python_name), cmd_name)
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a subcommand from the table, without loading any."""
        from click.shell_completion import CompletionItem

        summaries = {name: summary for panel in COMMANDS.values() for name, summary in panel.items()}
        found = [CompletionItem(name, help=text) for name, text in summaries.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands by purpose."""
        widest = max(map(len, self.list_commands(ctx)))
        for title, panel in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", summary) for name, summary in panel.items()])


def _print_version(ctx: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    del option
    if is_wanted:
        print(f"steelyard {__version__}")
        ctx.exit()


app = _RootGroup(
    "steelyard",
    help="Load-balanced messaging: clusters, messages, consumer groups, and how queues are assigned.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version and exit.",
        )
    ],
    epilog="\b\nExamples:\n  steelyard up --brokers 2\n  steelyard send orders --body hello\n"
    "  steelyard consume orders --from first --json\n  steelyard group explain billing\n  steelyard doctor",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; without arguments it shows its help."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["help"], ["version"]):
        # As with other tools: `steelyard help topic` is `steelyard topic --help`.
        words = [*words[1:], f"--{words[0]}"]
    if arguments is None:  # a caller with arguments of its own has its own streams
        open_missing_streams()
    return guard_output(lambda: run_app(app, words, "steelyard"))
