"""`steelyard doctor`: findings in a fixed order, each ok, worth a look or wrong, with what to do next.

It only reads: nothing is sent, joined or changed. Each step has a timeout, and all of them together take about half a
minute at most. The rules are those of `steelyard.diagnostics`, in the order in which one would look: this machine, name
servers, brokers, topics, groups. Exit codes: 0 nothing is wrong, 1 something is, 5 no server can be reached.
"""

import os
import platform
import sys
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from steelyard.cli.shared.commands import command
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import ClientOptions, GroupOption
from steelyard.cli.shared.output import Output, columns, finding_values
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import make_console, print_note, stderr_warnings
from steelyard.model.formatting import pluralize, printable, short_names, shorten_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.client.cluster_facts import ClusterFacts
    from steelyard.diagnostics.machine import MachineFacts
    from steelyard.model.finding import Finding

_COLUMNS = columns("mark", "about", "what", "next_step")
_MARK_STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}
_MARKS = {"ok": "ok", "warning": "look", "error": "wrong"}
"""What is printed for each severity."""
_PROXY_VARIABLES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


@command(
    "steelyard doctor",
    "steelyard doctor --namesrv mq-1:9876 --group billing",
    "steelyard doctor --output jsonl | jq 'select(.mark == \"wrong\")'",
)
def doctor(
    client: ClientOptions,
    out: Output,
    group: GroupOption = None,
    spark: Annotated[bool, option(help="Also check what Spark needs: Java and packages.")] = False,
) -> None:
    """Find out why something does not work.

    Checks names, ports, versions, clocks, disks, topics and groups in this order, each with what to do next.
    Exit codes: 0 nothing is wrong, 1 something is, 5 no server can be reached.
    """
    import asyncio

    from steelyard.client.cluster_facts import collect_cluster_facts
    from steelyard.model.finding import Severity

    config = client.config()
    with stderr_warnings(quiet=True):
        here = _collect_machine_facts(client, str(config), spark=spark)
        facts = asyncio.run(collect_cluster_facts(config, group))
    findings = list(diagnose(here, facts))
    if out.is_table:
        _print_findings(findings)
    else:
        out.print_rows(_COLUMNS, [_finding_row(each) for each in findings])
    is_wrong = any(each.severity is Severity.ERROR for each in findings)
    code = ExitCode.FAILED if is_wrong else ExitCode.DONE
    raise Exit(int(code if any(each.works for each in facts.name_servers) else ExitCode.UNREACHABLE))


def diagnose(here: "MachineFacts", seen: "ClusterFacts") -> "Iterator[Finding]":
    """Yield all findings."""
    from steelyard.diagnostics.machine import diagnose_machine
    from steelyard.diagnostics.servers import diagnose_brokers, diagnose_name_servers, is_loopback

    working = [each for each in seen.name_servers if each.works]
    yield from diagnose_machine(here, is_reached=bool(working))
    yield from diagnose_name_servers(seen.name_servers)
    are_here = all(is_loopback(ip) for each in working for ip in each.ips)
    yield from diagnose_brokers(seen.brokers, names_are_here=are_here)
    yield from _about_topics(seen)
    yield from _about_groups(seen)


def _about_topics(seen: "ClusterFacts") -> "Iterator[Finding]":
    from steelyard.diagnostics.servers import ok
    from steelyard.diagnostics.topic import diagnose_topic

    if seen.topics is None:
        return
    bad = [finding for topic in seen.topics for finding in diagnose_topic(topic)]
    yield from bad
    if not seen.topics:
        yield ok(
            "topics", "there is none yet; the first message of a topic creates it, or: steelyard topic create NAME"
        )
    elif not bad:
        yield ok("topics", f"{pluralize(len(seen.topics), 'topic')}, with queues to write and to read")


def _about_groups(seen: "ClusterFacts") -> "Iterator[Finding]":
    from msgspec.structs import replace

    from steelyard.diagnostics.group import dead_letters
    from steelyard.diagnostics.servers import ok
    from steelyard.model.finding import Finding, Severity

    for each in seen.groups:
        view, subject = each.view, f"group {each.view.group}"
        names = short_names(view.owned())
        found = [*view.findings, *dead_letters(view.group, each.dead, each.died_at, seen.at)]
        for finding in found:
            what, step = (shorten_ids(text, names) for text in (finding.message, finding.next_step))
            yield replace(finding, message=what, subject=subject, next_step=step)
        for note in view.notes:
            yield Finding("note", shorten_ids(note, names), Severity.WARNING, subject)
        if not found and not view.notes:
            lag = f"a lag of {pluralize(view.lag, 'message')}" if view.lag else "no lag"
            members = pluralize(len(view.members), "member") if view.members else "no member"
            dead = f", {pluralize(each.dead, 'dead letter')}" if each.dead else ""
            yield ok(subject, f"{members} online, {pluralize(len(view.queues), 'queue')}, {lag}{dead}")
    for what, step in seen.not_there:
        yield Finding("not found", what.rstrip("."), subject="group", next_step=step)
    for sentence in seen.left_out:
        yield Finding("not checked", sentence, Severity.WARNING, "not checked")


def _finding_row(finding: "Finding") -> dict[str, object]:
    return {
        "mark": _MARKS[finding.severity.value],
        "about": finding.subject,
        "what": finding.message,
        **{name: value for name, value in finding_values(finding).items() if name != "message"},
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


def _collect_machine_facts(client: ClientOptions, address: str, *, spark: bool = False) -> "MachineFacts":
    """Collect the facts about this machine."""
    from steelyard.diagnostics.machine import EXTRA_PACKAGES, MachineFacts
    from steelyard.version import __version__

    java, no_java = _find_java() if spark else (None, None)
    return MachineFacts(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        release=__version__,
        missing=tuple(each for packages in EXTRA_PACKAGES.values() for each in packages if not _is_installed(each)),
        address=address,
        address_source=_address_source(client),
        proxies=tuple(name for name in _PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())),
        open_file_limit=_open_file_limit(),
        java=java,
        java_problem=no_java,
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _address_source(client: ClientOptions) -> str:
    from steelyard.cli.shared.contexts import load_contexts
    from steelyard.client.config import NAMESRV_ENVIRONMENT

    if client.namesrv:
        return "--namesrv"
    if client.context is not None:
        return f"context {client.context}"
    if os.environ.get(NAMESRV_ENVIRONMENT, "").strip():
        return NAMESRV_ENVIRONMENT
    chosen = load_contexts().chosen
    return f"context {chosen}" if chosen is not None else ""


def _open_file_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _find_java() -> tuple[str | None, str | None]:
    from steelyard.errors import SteelyardError
    from steelyard.spark.runtimes import find_java

    try:
        found = find_java(os.environ)
    except SteelyardError as error:
        return None, error.what
    return f"Java {found.version} ({found.source})", None
