"""`steelyard producer`: who sends, as brokers know it from heartbeats.

A producer says hello to brokers that it has sent to, every 30 seconds; one that is gone is forgotten after two minutes.
One of ours that avoids slow brokers tells what it knows of each, at once when it begins or ends to avoid one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.words import share
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.moments import on_the_clock
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.producers import ProducerLine

__all__ = ["app"]

app = Noun("producer", "See who sends.")

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The producers' group.", show_default=False)]
_WHO_TELLS = "producers of ours tell one to brokers of ours, if avoid_slow_brokers is on"
_COLUMNS = [Column("id", "producer"), Column("address"), Column("client"), Column("brokers")]


@app.verb("ls", "steelyard producer ls", "steelyard producer ls --output json")
@at_cluster
def _list_producers(where: Where, out: Out) -> None:
    """List all producers that are online."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.producers()
    columns = [Column("group"), *_COLUMNS, Column("seen_at", "seen", show=on_the_clock)]
    out.rows(columns, _rows(found), none="no producer is online")


@app.verb("show", "steelyard producer show shop")
@at_cluster
def _show_producers(where: Where, out: Out, group: _Group) -> None:
    """Show the producers of a group, each with its line."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.producer(group)
    out.rows(_COLUMNS, _rows(found))


@app.verb("ledger", "steelyard producer ledger", "steelyard producer ledger shop --output json")
@at_cluster
def _show_ledgers(
    where: Where,
    out: Out,
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Only producers of this group.", show_default=False)
    ] = None,
) -> None:
    """Show how quick each broker is to each producer, and who avoids which."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.producers() if group is None else admin.producer(group)
    columns = [
        Column("group"),
        Column("id", "producer"),
        Column("broker"),
        Column("latency_ms", "last ms", right=True),
        Column("usual_ms", "usual ms", right=True),
        Column("share", "turns", right=True, show=share),
        Column("failures", "failed", right=True),
        Column("avoided_ms", "avoided", right=True, show=lambda ms: f"{ms / 1_000:.1f} s"),
        Column("why"),
    ]
    out.rows(columns, _ledger_rows(found))
    silent = sum(each.ledger is None for each in found)
    if silent:
        note(f"{counted(silent, 'producer')} without a ledger: {_WHO_TELLS}")


def _ledger_rows(found: "Iterable[ProducerLine]") -> Iterable[dict[str, object]]:
    for each in found:
        for row in each.ledger or ():
            yield {
                "group": each.group,
                "id": each.id,
                "broker": row.broker,
                "latency_ms": row.latency_ms,
                "usual_ms": row.usual_ms,
                "share": row.share,
                "failures": row.failures,
                "avoided_ms": row.avoided_ms,
                "why": row.why or None,
                "told_at": each.told_at,
            }


def _rows(found: "Iterable[ProducerLine]") -> Iterable[dict[str, object]]:
    for each in found:
        yield {
            "group": each.group,
            "id": each.id,
            "address": each.address,
            "client": f"{each.language} {each.release}",
            "language": each.language,
            "release": each.release,
            "brokers": each.brokers,
            **({} if each.seen_at is None else {"seen_at": each.seen_at}),
        }
