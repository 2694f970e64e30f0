"""`steelyard doctor`: checks in a fixed order, each ok, worth a look or wrong, with what to do next.

It only reads: nothing is sent, joined or changed. Each step has a timeout, and all of them together take about half a
minute at most. Exit codes: 0 nothing is wrong, 1 something is, 5 no server can be reached.
"""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.shared.commands import help_examples
from steelyard.cli.shared.options import ClientOptions, GroupOption, option
from steelyard.cli.shared.output import Output, columns
from steelyard.cli.shared.terminal import make_console, print_note, stderr_warnings
from steelyard.model.formatting import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model.finding import Finding

_COLUMNS = columns("mark", "about", "what", "next_step")
_MARK_STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}
_MARKS = {"ok": "ok", "warning": "look", "error": "wrong"}
"""What is printed for each severity."""


@help_examples(
    "steelyard doctor",
    "steelyard doctor --namesrv mq-1:9876 --group billing",
    "steelyard doctor --output jsonl | jq 'select(.mark == \"wrong\")'",
)
def doctor(
    client: ClientOptions,
    out: Output,
    group: GroupOption = None,
    spark: Annotated[bool, option("--spark", help="Also check what Spark needs: Java and packages.")] = False,
) -> None:
    """Find out why something does not work.

    Checks names, ports, versions, clocks, disks, topics and groups in this order, each with what to do next.
    Exit codes: 0 nothing is wrong, 1 something is, 5 no server can be reached.
    """
    import asyncio

    from steelyard.cli.doctor_rules import collect_environment, diagnose, exit_code_of
    from steelyard.client.diagnostics import collect_cluster_facts

    config = client.config()
    with stderr_warnings(quiet=True):
        environment = collect_environment(client, str(config), spark=spark)
        facts = asyncio.run(collect_cluster_facts(config, group))
    findings = diagnose(environment, facts)
    if out.is_table:
        _print_findings(findings)
    else:
        out.print_rows(_COLUMNS, [_finding_row(each) for each in findings])
    raise typer.Exit(int(exit_code_of(findings, facts)))


def _finding_row(finding: "Finding") -> dict[str, object]:
    return {
        "mark": _MARKS[finding.severity.value],
        "about": finding.subject,
        "what": finding.message,
        "next_step": finding.next_step or None,
    }


def _print_findings(findings: "Sequence[Finding]") -> None:
    from rich.text import Text

    console = make_console()
    for each in findings:
        mark = _MARKS[each.severity.value]
        line = Text(f"{mark:<6}", _MARK_STYLES[mark]).append(
            f"{printable(each.subject)}: {printable(each.message)}", "default"
        )
        console.print(line, soft_wrap=True)
        if each.next_step:
            console.print(f"      → {printable(each.next_step)}", soft_wrap=True)
    counted = Counter(_MARKS[each.severity.value] for each in findings)
    print_note(", ".join(f"{counted[mark]} {mark}" for mark in _MARK_STYLES if counted[mark]))
