"""Before something is lost: a person at a terminal is asked, and a script has to say so in advance.

Nobody is asked without a terminal: a job that waits for an answer which cannot come is worse than one that fails.
"""

import sys
from typing import Annotated

import typer

from steelyard.errors import ConfigurationError

__all__ = ["DryRun", "Yes", "confirm"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def confirm(what: str, yes: bool) -> None:
    """Go on only if that is wanted; ``what`` is a sentence about what would happen."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(what, next_step="if that is wanted, say --yes")
    from steelyard.cli.frame.screen import note, visible

    # On stderr: stdout is for answers, and may be a file.
    sys.stderr.write(f"{visible(what)}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was changed")
        raise typer.Exit(1)
