"""Running a job on Spark for a verb: what was chosen is said, Spark is started, and an end is told in time.

Until Spark has started, Ctrl-C and SIGTERM end it all at once; then they are a wish to end after the batch that runs.
While a job runs, news of its batches go to stderr: a line that changes on a terminal, a line for each batch elsewhere.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.screen import visible
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConfOption", "Done", "MasterOption", "Spark", "Work", "pairs", "run_job", "say", "say_what_is_shared"]

_PANEL = "Spark"

MasterOption = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs: spark://host:7077, yarn, local[2] …",
        show_default="this machine, all of its cores",
        rich_help_panel=_PANEL,
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="NAME=VALUE", help="A setting of Spark; several by repeating it.", rich_help_panel=_PANEL
    ),
]


class Done(Protocol):
    """A batch that is done; as a text it says all there is to say."""

    @property
    def rows(self) -> int:
        """How many rows it had."""


Work = Callable[["SparkSession", Callable[[Done], None], Callable[[], bool]], int]
"""A job: it tells of each batch, asks whether it is time to end, and returns how many rows it did."""


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark runs, and how."""

    master: str | None = None
    conf: Sequence[str] = field(default=())

    @contextmanager
    def running(self, name: str) -> "Iterator[SparkSession]":
        """Start Spark, say what was chosen, and stop it at the end."""
        from steelyard.spark.local import prepare, session

        conf = pairs("--conf", self.conf)
        say(prepare(master=self.master))
        spark = session(name, master=self.master, conf=conf)
        yield spark
        spark.stop()  # not after an error: it may hang, and Java ends with us


def pairs(option: str, given: "Sequence[str] | None") -> dict[str, str]:
    """Read what was given as NAME=VALUE.

    >>> pairs("--conf", ["spark.driver.memory=2g"])
    {'spark.driver.memory': '2g'}
    """
    for each in given or ():
        if not each.partition("=")[0].strip() or "=" not in each:
            raise ConfigurationError(f"{option} is {each!r}", next_step=f"write it as {option} name=value")
    return {name.strip(): value for name, _, value in (each.partition("=") for each in given or ())}


def say_what_is_shared(master: str | None, *paths: str) -> None:
    """Remind of it that machines of a cluster must see the same files."""
    from steelyard.pipelines.files import is_here
    from steelyard.spark.local import is_local

    for path in paths if not is_local(master) else ():
        if is_here(path):
            say(f"all machines of {master} must see the same {path}")


def say(line: str) -> None:
    """Say something about the job itself: on stderr, so that stdout has answers alone."""
    print("steelyard:", visible(line), file=sys.stderr)


def run_job(name: str, spark: Spark, work: Work, did: Callable[[int], str]) -> None:
    """Run a job to its end, or until it is told to end; ``did`` says in words what was done with so many rows."""
    with log_on_stderr(), spark.running(name) as running, until_told() as ending, _news(name) as tell:
        begin = time.monotonic()
        rows = work(running, tell, ending.__bool__)
        took_s = time.monotonic() - begin
    why = ", and ended as it was told to" if ending else ""
    say(f"{name}: {did(rows)} in {took_s:.1f} s{why}")


@contextmanager
def _news(name: str) -> Iterator[Callable[[Done], None]]:
    """Return what hears of each batch."""
    if not sys.stderr.isatty():
        yield lambda batch: say(f"{name}: {batch}")
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    rows = 0
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        line = bar.add_task(f"{name}: the first batch is under way", total=None)

        def tell(batch: Done) -> None:
            nonlocal rows
            rows += batch.rows
            bar.update(line, description=f"{name}: {rows:,} rows; {batch}")

        yield tell
