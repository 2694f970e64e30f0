"""The command `steelyard`: its verbs, and how it says no.

Whatever goes wrong is one line on stderr that says what, where and what to do next, and an exit code that says what
kind of failure it was (`cli/exits.py`). A verb lives in a file of its own and is registered here.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from steelyard.cli.consume import consume
from steelyard.cli.exits import Exit, exit_for
from steelyard.cli.group import app as group_app
from steelyard.cli.pipeline import app as pipeline_app
from steelyard.cli.plan import plan
from steelyard.cli.screen import refuse, shown
from steelyard.cli.send import send
from steelyard.cli.sim import sim
from steelyard.cli.store import app as store_app
from steelyard.cli.topic import app as topic_app
from steelyard.cli.up import up
from steelyard.errors import SteelyardError
from steelyard.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="steelyard",
    help="Messaging that balances itself: a cluster, messages, groups, and how their queues are shared.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(send)
app.command()(consume)
app.add_typer(topic_app)
app.add_typer(group_app)
app.command()(plan)
app.add_typer(pipeline_app)
app.command()(sim)
app.add_typer(store_app)

# What typer raises for an unknown option, a missing one or a value it cannot read.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; without a verb it shows its help."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    return shown(lambda: _answer(asked or ["--help"]))


def _answer(asked: list[str]) -> int:
    try:
        code = app(args=asked, standalone_mode=False)
    except SteelyardError as error:
        return refuse(str(error), exit_for(error))
    except _UsageError as error:
        what = getattr(error, "format_message", error.__str__)().rstrip(".")
        # A verb that has verbs of its own and was given none has shown its help, and there is nothing to add.
        return refuse(f"{what}; see: steelyard --help") if what else 0
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    return code if isinstance(code, int) else 0
