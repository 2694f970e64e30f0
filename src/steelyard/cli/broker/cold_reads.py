"""`steelyard broker cold-reads`: groups that read what is long out of memory, and how much of it they may.

Reading from disk slows down whoever writes. A broker that is told to (``coldDataFlowControlEnable``) makes a group wait
that read more than its limit within a few seconds.
"""

from typing import Annotated

import typer

from steelyard.cli.broker.words import size
from steelyard.cli.frame.arguments import BrokerName, GroupName
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

__all__ = ["cold_reads"]

cold_reads = Noun("cold-reads", "See which groups read from disk, and limit how much.")


@cold_reads.verb("show", "steelyard broker cold-reads show broker-a")
@at_cluster
def _show(where: Where, out: Out, broker: BrokerName) -> None:
    """List the groups that read from disk lately, or have a limit of their own."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.cold_reads(broker)
    columns = [
        Column("group"),
        Column("limit_bytes", "may read", right=True, show=size),
        Column("own_limit"),
        Column("read_bytes", "has read", right=True, show=size),
        Column("read_at", "last read"),
    ]
    rows = (
        {
            "group": each.group,
            "limit_bytes": each.limit_bytes,
            "own_limit": each.has_own_limit,
            "read_bytes": each.read_bytes,
            "read_at": each.read_at,
        }
        for each in found
    )
    out.rows(columns, rows)


@cold_reads.verb("set", "steelyard broker cold-reads set broker-a reports 4194304")
@at_cluster
def _set(
    where: Where,
    out: Out,
    broker: BrokerName,
    group: GroupName,
    limit: Annotated[
        int, typer.Argument(min=0, metavar="BYTES", help="What it may read within a few seconds.", show_default=False)
    ],
) -> None:
    """Limit how much a group may read from disk."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.limit_cold_reads(broker, group, limit)
    out.done(
        f"group {group} may read {size(limit)} from disk on {broker} within a few seconds",
        broker=broker,
        group=group,
        limit_bytes=limit,
    )


@cold_reads.verb("clear", "steelyard broker cold-reads clear broker-a reports")
@at_cluster
def _clear(where: Where, out: Out, broker: BrokerName, group: GroupName) -> None:
    """Take a group's own limit away."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.unlimit_cold_reads(broker, group)
    out.done(f"group {group} has no limit of its own on {broker} any more", broker=broker, group=group)
