"""`steelyard check`: whether all is well, in one line and an exit code, for Nagios, cron, probes and whoever watches.

Exit codes are those that such tools agree on, and others than of all other verbs: 0 ok, 1 warning, 2 critical, 3
unknown. Who cannot be reached, or is not there, is critical; who answers and does not tell is unknown.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.frame.arguments import GroupName, TopicName
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steelyard.cli.check.gathering import Checks
    from steelyard.cli.check.verdict import Limits, Verdict

__all__ = ["app"]

app = Noun(
    "check",
    "Say in one line whether all is well, for monitoring. Exit codes are those of tools that watch, and not of other "
    "verbs: 0 ok, 1 warning, 2 critical (also if nobody can be reached), 3 unknown. Behind the bar are the figures.",
)

_Every = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN",
        help="Look again and again, such as every 30s, and print a line each time; what changed is marked.",
        show_default=False,
    ),
]
_Count = Annotated[int | None, typer.Option(min=1, help="With --every: stop after so many looks.", show_default=False)]
_LagWarn = Annotated[int | None, typer.Option(metavar="N", help="Warn if more messages wait.", show_default=False)]
_LagCrit = Annotated[int | None, typer.Option(metavar="N", help="Critical if more messages wait.", show_default=False)]
_AgeWarn = Annotated[
    str | None, typer.Option(metavar="SPAN", help="Warn if a message waits longer, such as 5m.", show_default=False)
]
_AgeCrit = Annotated[
    str | None, typer.Option(metavar="SPAN", help="Critical if a message waits longer.", show_default=False)
]
_DeadWarn = Annotated[
    int | None, typer.Option(metavar="N", help="Warn if more messages are dead letters.", show_default=False)
]
_DeadCrit = Annotated[
    int | None, typer.Option(metavar="N", help="Critical if more messages are dead letters.", show_default=False)
]
_DiskWarn = Annotated[float, typer.Option(metavar="PERCENT", help="Warn if a disk is fuller.")]
_DiskCrit = Annotated[float, typer.Option(metavar="PERCENT", help="Critical if a disk is fuller.")]
_Brokers = Annotated[int, typer.Option(min=0, metavar="N", help="Critical if there are fewer brokers.")]
_SkewWarn = Annotated[
    float | None,
    typer.Option(metavar="TIMES", help="Warn if a queue holds so many times the average.", show_default=False),
]


@app.verb("cluster", "steelyard check cluster", "steelyard check cluster --brokers 3 --disk-warn 60 --disk-crit 80")
@at_cluster
def _check_cluster(
    where: Where,
    out: Out,
    disk_warn: _DiskWarn = 75.0,
    disk_crit: _DiskCrit = 90.0,
    brokers: _Brokers = 0,
    every: _Every = None,
    count: _Count = None,
) -> None:
    """Check brokers, name servers and disks.

    Everybody answers, name servers tell the same, disks have room, releases are the same.
    """
    wanted = {"disk": _limits(disk_warn, disk_crit), "brokers": brokers}
    _run(where, out, wanted, "cluster", lambda checks: checks.cluster(), every, count)


@app.verb(
    "group",
    "steelyard check group billing --lag-warn 1000 --lag-crit 10000 --age-warn 5m",
    "steelyard check group billing --members 3 --dead-warn 0 --every 30s",
)
@at_cluster
def _check_group(
    where: Where,
    out: Out,
    group: GroupName,
    lag_warn: _LagWarn = None,
    lag_crit: _LagCrit = None,
    age_warn: _AgeWarn = None,
    age_crit: _AgeCrit = None,
    dead_warn: _DeadWarn = None,
    dead_crit: _DeadCrit = None,
    members: Annotated[
        int, typer.Option(min=0, help="Critical if fewer members are online; 0 for groups that come and go.")
    ] = 1,
    every: _Every = None,
    count: _Count = None,
) -> None:
    """Check what waits for a group, and who is online.

    Also what looks wrong in it, such as members with one id, unequal subscriptions and queues that do not move.
    """
    wanted = {
        "lag": _limits(lag_warn, lag_crit),
        "age": _spans(age_warn, age_crit),
        "dead": _limits(dead_warn, dead_crit),
        "members": members,
    }
    _run(where, out, wanted, f"group {group}", lambda checks: checks.group(group), every, count)


@app.verb("topic", "steelyard check topic orders", "steelyard check topic orders --brokers 2 --skew-warn 3")
@at_cluster
def _check_topic(
    where: Where,
    out: Out,
    topic: TopicName,
    brokers: _Brokers = 0,
    skew_warn: _SkewWarn = None,
    skew_crit: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="Critical if a queue holds so many times the average.", show_default=False),
    ] = None,
    every: _Every = None,
    count: _Count = None,
) -> None:
    """Check that a topic can be written and read.

    With limits also that its queues hold about the same, and that enough brokers have it.
    """
    wanted = {"skew": _limits(skew_warn, skew_crit), "brokers": brokers}
    _run(where, out, wanted, f"topic {topic}", lambda checks: checks.topic(topic), every, count)


@app.verb("send", "steelyard check send", "steelyard check send orders --warn 100ms --crit 1s")
@at_cluster
def _check_send(
    where: Where,
    out: Out,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="Where to send to; its readers get the message, with the tag steelyard-check.",
            show_default="the topic that each broker has for itself",
        ),
    ] = None,
    warn: Annotated[str, typer.Option(metavar="SPAN", help="Warn if it takes longer, there and back.")] = "500ms",
    crit: Annotated[str, typer.Option(metavar="SPAN", help="Critical if it takes longer.")] = "3s",
    every: _Every = None,
    count: _Count = None,
) -> None:
    """Send a message to each broker, and read it again."""
    about = "send" if topic is None else f"send {topic}"
    _run(where, out, {"took": _spans(warn, crit)}, about, lambda checks: checks.send(topic), every, count)


@app.verb(
    "all", "steelyard check all --lag-warn 10000", "steelyard check all --every 30s --output jsonl >> checks.jsonl"
)
@at_cluster
def _check_all(
    where: Where,
    out: Out,
    lag_warn: _LagWarn = None,
    lag_crit: _LagCrit = None,
    age_warn: _AgeWarn = None,
    age_crit: _AgeCrit = None,
    dead_warn: _DeadWarn = None,
    dead_crit: _DeadCrit = None,
    members: Annotated[int, typer.Option(min=0, help="Critical if fewer members of a group are online.")] = 0,
    disk_warn: _DiskWarn = 75.0,
    disk_crit: _DiskCrit = 90.0,
    skew_warn: _SkewWarn = None,
    every: _Every = None,
    count: _Count = None,
) -> None:
    """Check the cluster, all topics and all groups.

    The first line is for all of them, and then there is one for each. Nothing is sent.
    """
    wanted = {
        "lag": _limits(lag_warn, lag_crit),
        "age": _spans(age_warn, age_crit),
        "dead": _limits(dead_warn, dead_crit),
        "members": members,
        "disk": _limits(disk_warn, disk_crit),
        "skew": _limits(skew_warn, None),
    }
    _run(where, out, wanted, "all", lambda checks: checks.everything(), every, count)


def _limits(warn: float | None, crit: float | None) -> "Limits":
    from steelyard.cli.check.verdict import Limits

    return Limits(warn, crit)


def _spans(warn: str | None, crit: str | None) -> "Limits":
    from steelyard.cli.frame.moments import seconds

    return _limits(*(None if each is None else seconds(each) for each in (warn, crit)))


def _run(
    where: Where,
    out: Out,
    wanted: dict[str, Any],
    about: str,
    look: "Callable[[Checks], Coroutine[Any, Any, Verdict]]",
    every: str | None,
    count: int | None,
) -> None:
    from steelyard.cli.check.gathering import Checks, Wanted, told
    from steelyard.cli.check.telling import run_checks

    checks = Checks(where.connect(), Wanted(**wanted))
    raise typer.Exit(run_checks(lambda: told(about, look(checks)), out, every, count))
