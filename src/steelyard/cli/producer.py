"""`steelyard producer`: who sends, as brokers know it from heartbeats.

A producer says hello to brokers that it has sent to, every 30 seconds; one that is gone is forgotten after two minutes.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.moments import on_the_clock
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.producers import ProducerLine

__all__ = ["app"]

app = Noun("producer", "See who sends.")

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The producers' group.", show_default=False)]
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
