"""`steelyard check`: health in one line and an exit code, for Nagios, cron and other monitoring.

The exit codes are those of Nagios plug-ins, unlike all other commands: 0 ok, 1 warning, 2 critical, 3 unknown. A server
that cannot be reached, and a name that does not exist, are critical; a server that does not support the question is
unknown.
"""

from typing import TYPE_CHECKING, Annotated, Any

from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import ClientOptions, GroupArgument, TopicArgument
from steelyard.cli.shared.output import Output
from steelyard.cli.shared.parameters import argument, option
from steelyard.model.time_text import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steelyard.cli.check_rules import CheckResult, Thresholds
    from steelyard.cli.check_run import ClusterChecks

app = CommandGroup(
    "check",
    "Check health in one line, for monitoring. Exit codes are those of Nagios plug-ins, unlike other commands: 0 ok, "
    "1 warning, 2 critical (also if no server can be reached), 3 unknown. Metrics follow the bar.",
)


_LagWarnOption = Annotated[int | None, option(help="Warn if the lag is greater.")]
_LagCritOption = Annotated[int | None, option(help="Critical if the lag is greater.")]
_AgeWarnOption = Annotated[str | None, option(metavar="SPAN", help="Warn if a message waits longer, such as 5m.")]
_AgeCritOption = Annotated[str | None, option(metavar="SPAN", help="Critical if a message waits longer.")]
_DeadWarnOption = Annotated[int | None, option(help="Warn if there are more dead letters.")]
_DeadCritOption = Annotated[int | None, option(help="Critical if there are more dead letters.")]
_SkewWarnOption = Annotated[
    float | None, option(metavar="TIMES", help="Warn if a queue holds this many times the average.")
]
_SkewCritOption = Annotated[
    float | None, option(metavar="TIMES", help="Critical if a queue holds this many times the average.")
]
_DiskWarnOption = Annotated[float, option(metavar="PERCENT", help="Warn if a disk is fuller.")]
_DiskCritOption = Annotated[float, option(metavar="PERCENT", help="Critical if a disk is fuller.")]
_BrokersOption = Annotated[int, option(min=0, metavar="N", help="Critical if there are fewer brokers.")]
_MembersOption = Annotated[
    int | None, option(min=0, help="Critical if fewer members are online; 0 if groups come and go.")
]
_EveryOption = Annotated[
    str | None,
    option(metavar="SPAN", help="Check repeatedly, such as every 30s, and print a line each time; changes are marked."),
]
_CountOption = Annotated[int | None, option(min=1, help="With --every: stop after this many checks.")]


@app.subcommand(
    "cluster", "steelyard check cluster", "steelyard check cluster --brokers 3 --disk-warn 60 --disk-crit 80"
)
def _check_cluster(
    client: ClientOptions,
    out: Output,
    disk_warn: _DiskWarnOption = 75.0,
    disk_crit: _DiskCritOption = 90.0,
    brokers: _BrokersOption = 0,
    every: _EveryOption = None,
    count: _CountOption = None,
) -> None:
    """Check brokers, name servers and disks.

    All servers answer, name servers agree, disks have room, and releases are the same.
    """
    wanted = {"disk": _thresholds(disk_warn, disk_crit), "brokers": brokers}
    _run_check(client, out, wanted, "cluster", lambda checks: checks.check_cluster(), every, count)


@app.subcommand(
    "group",
    "steelyard check group billing --lag-warn 1000 --lag-crit 10000 --age-warn 5m",
    "steelyard check group billing --members 3 --dead-warn 0 --every 30s",
)
def _check_group(
    client: ClientOptions,
    out: Output,
    group: GroupArgument,
    lag_warn: _LagWarnOption = None,
    lag_crit: _LagCritOption = None,
    age_warn: _AgeWarnOption = None,
    age_crit: _AgeCritOption = None,
    dead_warn: _DeadWarnOption = None,
    dead_crit: _DeadCritOption = None,
    members: _MembersOption = None,
    every: _EveryOption = None,
    count: _CountOption = None,
) -> None:
    """Check the lag and the members of a group.

    Also what looks wrong, such as duplicate client ids, different subscriptions and queues that are stuck.
    """
    wanted = {
        "lag": _thresholds(lag_warn, lag_crit),
        "age": _duration_thresholds(age_warn, age_crit),
        "dead": _thresholds(dead_warn, dead_crit),
        "members": members,
    }
    _run_check(client, out, wanted, f"group {group}", lambda checks: checks.check_group(group), every, count)


@app.subcommand("topic", "steelyard check topic orders", "steelyard check topic orders --brokers 2 --skew-warn 3")
def _check_topic(
    client: ClientOptions,
    out: Output,
    topic: TopicArgument,
    brokers: _BrokersOption = 0,
    skew_warn: _SkewWarnOption = None,
    skew_crit: _SkewCritOption = None,
    every: _EveryOption = None,
    count: _CountOption = None,
) -> None:
    """Check that a topic can be written and read.

    With limits, also that its queues are evenly filled and that enough brokers have it.
    """
    wanted = {"skew": _thresholds(skew_warn, skew_crit), "brokers": brokers}
    _run_check(client, out, wanted, f"topic {topic}", lambda checks: checks.check_topic(topic), every, count)


@app.subcommand("send", "steelyard check send", "steelyard check send orders --warn 100ms --crit 1s")
def _check_send(
    client: ClientOptions,
    out: Output,
    topic: Annotated[
        str | None,
        argument(
            metavar="[TOPIC]",
            help="The topic to send to; its groups get the message, with the tag steelyard-check.",
            show_default="the topic under each broker's own name",
        ),
    ] = None,
    warn: Annotated[str, option(metavar="SPAN", help="Warn if the round trip takes longer.")] = "500ms",
    crit: Annotated[str, option(metavar="SPAN", help="Critical if it takes longer.")] = "3s",
    every: _EveryOption = None,
    count: _CountOption = None,
) -> None:
    """Send a message to each broker, and read it back."""
    subject = "send" if topic is None else f"send {topic}"
    _run_check(
        client,
        out,
        {"took": _duration_thresholds(warn, crit)},
        subject,
        lambda checks: checks.check_send(topic),
        every,
        count,
    )


@app.subcommand(
    "all", "steelyard check all --lag-warn 10000", "steelyard check all --every 30s --output jsonl >> checks.jsonl"
)
def _check_all(
    client: ClientOptions,
    out: Output,
    lag_warn: _LagWarnOption = None,
    lag_crit: _LagCritOption = None,
    age_warn: _AgeWarnOption = None,
    age_crit: _AgeCritOption = None,
    dead_warn: _DeadWarnOption = None,
    dead_crit: _DeadCritOption = None,
    members: _MembersOption = None,
    disk_warn: _DiskWarnOption = 75.0,
    disk_crit: _DiskCritOption = 90.0,
    skew_warn: _SkewWarnOption = None,
    every: _EveryOption = None,
    count: _CountOption = None,
) -> None:
    """Check the cluster, all topics and all groups.

    The first line sums up all of them, and one line for each follows. Nothing is sent.
    """
    wanted = {
        "lag": _thresholds(lag_warn, lag_crit),
        "age": _duration_thresholds(age_warn, age_crit),
        "dead": _thresholds(dead_warn, dead_crit),
        "members": members,
        "disk": _thresholds(disk_warn, disk_crit),
        "skew": _thresholds(skew_warn, None),
    }
    _run_check(client, out, wanted, "all", lambda checks: checks.check_all(), every, count)


def _thresholds(warn: float | None, crit: float | None) -> "Thresholds":
    from steelyard.cli.check_rules import Thresholds

    return Thresholds(warn, crit)


def _duration_thresholds(warn: str | None, crit: str | None) -> "Thresholds":
    return _thresholds(*(None if each is None else parse_duration_s(each) for each in (warn, crit)))


def _run_check(
    client: ClientOptions,
    out: Output,
    options: dict[str, Any],
    subject: str,
    check: "Callable[[ClusterChecks], Coroutine[Any, Any, CheckResult]]",
    every: str | None,
    count: int | None,
) -> None:
    from steelyard.cli.check_run import CheckOptions, ClusterChecks, result_of, run_checks

    checks = ClusterChecks(client.config(), CheckOptions(**options))
    raise Exit(run_checks(lambda: result_of(subject, check(checks)), out, every, count))
