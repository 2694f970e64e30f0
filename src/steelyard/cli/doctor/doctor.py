"""`steelyard doctor`: an ordered list of what was looked at, each ok, worth a look or wrong, with what to do next.

It only asks: nothing is sent, joined or changed. It ends in time, whatever is at the other end: each step has a limit,
and all of them together take about half a minute at most. Exit codes: 0 nothing is wrong, 1 something is, 5 nobody can
be reached.
"""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import InGroup
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.cli.doctor.finding import Finding

__all__ = ["doctor"]

_COLUMNS = (Column("mark"), Column("about"), Column("what"), Column("next_step"))
_STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}


@verb(
    "steelyard doctor",
    "steelyard doctor --namesrv mq-1:9876 --group billing",
    "steelyard doctor --output jsonl | jq 'select(.mark == \"wrong\")'",
)
@at_cluster
def doctor(
    where: Where,
    out: Out,
    group: InGroup = None,
    spark: Annotated[bool, typer.Option("--spark", help="Look also for what Spark needs: Java and packages.")] = False,
) -> None:
    """Find out why it does not work.

    Names, ports, versions, clocks, disks, topics and groups are looked at in this order, each with what to do next.
    Exit codes: 0 nothing is wrong, 1 something is, 5 nobody can be reached.
    """
    # Here and not above, so that help comes at once.
    import asyncio

    from steelyard.cli.doctor.here import look_here
    from steelyard.cli.doctor.judging import exit_of, findings_of
    from steelyard.cli.frame.logs import log_on_stderr
    from steelyard.client.checkup.gathering import look_around

    connect = where.connect()
    with log_on_stderr(is_quiet=True):
        here = look_here(where, str(connect), spark=spark)
        seen = asyncio.run(look_around(connect, group))
    findings = findings_of(here, seen)
    if out.is_table:
        _tell(findings)
    else:
        out.rows(_COLUMNS, [_values(each) for each in findings])
    raise typer.Exit(int(exit_of(findings, seen)))


def _values(finding: "Finding") -> dict[str, object]:
    return {
        "mark": finding.mark,
        "about": finding.about,
        "what": finding.what,
        "next_step": finding.next_step or None,
    }


def _tell(findings: "Sequence[Finding]") -> None:
    from rich.text import Text

    from steelyard.cli.frame.screen import note, screen, visible

    console = screen()
    for each in findings:
        mark = each.mark.value
        line = Text(f"{mark:<6}", _STYLES[mark]).append(f"{visible(each.about)}: {visible(each.what)}", "default")
        console.print(line, soft_wrap=True)
        if each.next_step:
            console.print(f"      → {visible(each.next_step)}", soft_wrap=True)
    counted = Counter(each.mark.value for each in findings)
    note(", ".join(f"{counted[mark]} {mark}" for mark in _STYLES if counted[mark]))
