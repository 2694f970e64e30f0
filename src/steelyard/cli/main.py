"""The command `steelyard`: its nouns and verbs, and how it says no.

Whatever goes wrong is one line on stderr that says what, where and what to do next, and an exit code that says what
kind of failure it was (`cli/frame/exits.py`). A noun lives in a file of its own, which is loaded when it is asked for:
help comes at once, and nobody waits for what he does not need.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from steelyard.cli.completion import COMPLETE_VARIABLE
from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.cli.frame.nouns import NounHelp, with_examples
from steelyard.cli.frame.screen import open_missing_streams, refuse, shown
from steelyard.errors import SteelyardError
from steelyard.version import __version__

__all__ = ["NOUNS", "app", "main"]


class _Noun(NamedTuple):
    module: str
    attribute: str
    about: str


NOUNS: dict[str, dict[str, _Noun]] = {
    "Run and use a cluster": {
        "up": _Noun("up", "up", "Run a name server and brokers here, with a page to look at, until Ctrl-C."),
        "page": _Noun("page", "page", "Show a cluster in the browser, ours or Apache's, until Ctrl-C."),
        "send": _Noun("send.send", "send", "Send messages: one, many, or as they come through a pipe."),
        "consume": _Noun("consume.consume", "consume", "Print messages as they come."),
        "message": _Noun("message.message", "app", "Find messages, look into them, and have them handled again."),
        "dead-letters": _Noun("dead_letters", "app", "Look at what groups gave up, and send it again."),
    },
    "Look after a cluster": {
        "topic": _Noun("topic.topic", "app", "List topics, look at one, make, change and delete it."),
        "group": _Noun("group.group", "app", "Look at consumer groups: who has which queue, how far it is, and why."),
        "member": _Noun("member", "app", "Look at the members of a group."),
        "offset": _Noun("offset.offset", "app", "See how far groups are, and move them."),
        "producer": _Noun("producer", "app", "See who sends."),
        "broker": _Noun("broker.broker", "app", "Look at brokers, change their settings, take them out of service."),
        "cluster": _Noun("cluster.cluster", "app", "Look at the whole: brokers, name servers, rates, latency."),
        "access": _Noun("access.access", "app", "Users and what they may do."),
        "controller": _Noun("controller", "app", "Controllers, which elect masters."),
    },
    "Understand it": {
        "plan": _Noun("plan.plan", "plan", "Show who would get which queue, and what would move; nothing is touched."),
        "doctor": _Noun("doctor.doctor", "doctor", "Find out why it does not work."),
        "check": _Noun("check.check", "app", "Say in one line whether all is well, for monitoring."),
        "bench": _Noun("bench.bench", "app", "Measure a cluster: how many messages a second, and how long one takes."),
        "sim": _Noun("sim.sim", "sim", "Run simulated histories in which things go wrong on purpose."),
        "store": _Noun("store", "app", "Look into a broker's directory, or prepare it for an Apache broker."),
    },
    "Beyond": {
        "pipeline": _Noun("pipeline.pipeline", "app", "Run jobs on topics with Spark, here or on a cluster."),
        "context": _Noun("context", "app", "Give clusters names, and choose the one to talk to."),
        "completion": _Noun(
            "completion",
            "completion",
            "Print the script that makes a shell complete what is typed, with the names of topics and groups.",
        ),
    },
}


class _Loaded(MutableMapping[str, Any]):
    """The nouns as commands, each loaded when it is asked for."""

    def __init__(self) -> None:
        self._known = {name: noun for panel in NOUNS.values() for name, noun in panel.items()}
        self._commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            noun = self._known[name]
            found = getattr(import_module(f"steelyard.cli.{noun.module}"), noun.attribute)
            self._commands[name] = _command(name, found)
        return self._commands[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _command(name: str, found: Any) -> Any:
    if isinstance(found, typer.Typer):
        return get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    with_examples(alone, name, found)
    command = get_command(alone)
    command.name = name
    return command


class _Nouns(NounHelp):
    """The command itself, which lists its nouns without loading them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the nouns."""
        del ctx
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete a noun by what stands in the table."""
        loaded = self.commands
        self.commands = {
            name: TyperCommand(name, help=noun.about) for panel in NOUNS.values() for name, noun in panel.items()
        }
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the nouns by what they are for."""
        del ctx
        widest = max(len(name) for panel in NOUNS.values() for name in panel)
        for title, panel in NOUNS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", noun.about) for name, noun in panel.items()])


app = typer.Typer(
    name="steelyard",
    help="Messaging that balances itself: a cluster, messages, groups, and how their queues are shared.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=_Nouns,
    epilog="\b\nExamples:\n  steelyard up --brokers 2\n  steelyard send orders --body hello\n"
    "  steelyard consume orders --from first --json\n  steelyard group explain billing\n  steelyard doctor",
)

# What typer raises for an unknown option, a missing one or a value it cannot read.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; without a noun it shows its help."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    if asked[:1] in (["help"], ["version"]):
        # As other tools are asked.
        asked = [*asked[1:], f"--{asked[0]}"]
    if arguments is None:  # whoever calls it with words has streams of his own
        open_missing_streams()
    return shown(lambda: _answer(asked))


def _answer(asked: list[str]) -> int:
    if os.environ.get(COMPLETE_VARIABLE):
        from typer._completion_classes import completion_init

        completion_init()
    try:
        code = app(args=asked, prog_name="steelyard", standalone_mode=False)
    except SteelyardError as error:
        return refuse(str(error), exit_for(error))
    except _UsageError as error:
        what = getattr(error, "format_message", error.__str__)().rstrip(".")
        return refuse(f"{what}{' See' if what.endswith('?') else '; see'}: {_usage(error)} --help")
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    """Return the noun and verb that could not be understood."""
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "steelyard"
