"""Verbs that look at a whole cluster: its brokers, and how much passes."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.words import release, share, span
from steelyard.cli.frame.arguments import InTopic
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.statistics import BrokerFlow, TopicFlow

__all__ = ["show", "stats"]


@at_cluster
def show(where: Where, out: Out) -> None:
    """Show the brokers of a cluster, masters and replicas."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        flows = admin.broker_flows()
    out.rows(
        [
            Column("cluster"),
            Column("broker"),
            Column("id", right=True),
            Column("address"),
            Column("version"),
            Column("in_tps", "in/s", right=True, show=_rate),
            Column("out_tps", "out/s", right=True, show=_rate),
            Column("disk_used", "disk", right=True, show=share),
            Column("up", right=True, show=span),
        ],
        map(_row, flows),
    )
    if out.is_table:
        _tell_problems(flows)


@at_cluster
def stats(
    where: Where,
    out: Out,
    topic: InTopic = None,
    active: Annotated[bool, typer.Option("--active", help="Only where something passed today.")] = False,
    brokers: Annotated[
        bool, typer.Option("--brokers", help="By broker: what came and went today and yesterday.")
    ] = False,
) -> None:
    """Show how much passes, and how far groups are behind.

    By topic and group: messages a second over the last minute, and in the last 24 hours as far as brokers have counted.
    """
    from steelyard.cli.frame.screen import note
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        flows = admin.broker_flows() if brokers or out.is_table else []
        topics = [] if brokers else admin.topic_flows(topic)
    if brokers:
        _print_brokers(out, flows)
    else:
        _print_topics(out, topics, only_active=active)
    if out.is_table:
        note(_together(flows))
        _tell_problems(flows)


def _print_brokers(out: Out, flows: "list[BrokerFlow]") -> None:
    counts = ("in_today", "out_today", "in_yesterday", "out_yesterday")
    out.rows(
        [
            Column("broker"),
            Column("id", right=True),
            Column("in_tps", "in/s", right=True, show=_rate),
            Column("out_tps", "out/s", right=True, show=_rate),
            *(Column(each, right=True) for each in counts),
        ],
        map(_row, flows),
    )


def _print_topics(out: Out, topics: "list[TopicFlow]", *, only_active: bool) -> None:
    rows: list[dict[str, object]] = []
    for each in topics:
        into = {"topic": each.topic, "in_tps": each.in_tps, "in_day": each.in_day}
        shown = [group for group in each.groups if not only_active or group.out_day or each.in_day]
        rows += [
            into | {"group": group.group, "lag": group.lag, "out_tps": group.out_tps, "out_day": group.out_day}
            for group in shown
        ]
        if not each.groups and (each.in_day or not only_active):
            rows.append(into | {"group": None, "lag": None, "out_tps": None, "out_day": None})
    out.rows(
        [
            Column("topic"),
            Column("group"),
            Column("lag", "waiting", right=True),
            Column("in_tps", "in/s", right=True, show=_rate),
            Column("out_tps", "out/s", right=True, show=_rate),
            Column("in_day", "in 24h", right=True),
            Column("out_day", "out 24h", right=True),
        ],
        rows,
    )


def _row(flow: "BrokerFlow") -> dict[str, object]:
    return asdict(flow) | {"version": flow.version and release(flow.version)}


def _together(flows: "list[BrokerFlow]") -> str:
    """Say what passes through all masters together: replicas have the same messages again."""
    masters = [each for each in flows if each.id == 0]
    into, out = (sum(getattr(each, name) or 0.0 for each in masters) for name in ("in_tps", "out_tps"))
    today, yesterday = (
        [sum(getattr(each, f"{way}_{day}") or 0 for each in masters) for way in ("in", "out")]
        for day in ("today", "yesterday")
    )
    return (
        f"all brokers: {_rate(into)} in/s, {_rate(out)} out/s; today {today[0]} in, {today[1]} out; yesterday "
        f"{yesterday[0]} in, {yesterday[1]} out"
    )


def _tell_problems(flows: "list[BrokerFlow]") -> None:
    from steelyard.cli.frame.screen import note

    for each in flows:
        if each.problem is not None:
            note(f"{each.broker} ({each.id}) does not answer: {each.problem}")


def _rate(tps: float) -> str:
    return f"{tps:.1f}"
