"""Which brokers are meant, as all verbs of `steelyard access` ask for it, and how an action's end is told."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import AtBroker
from steelyard.cli.frame.output import Out

if TYPE_CHECKING:
    from steelyard.client.admin.servers import Server

__all__ = ["AtBroker", "AtCluster", "FromBroker", "ToBroker", "done_on"]

AtCluster = Annotated[str | None, typer.Option("--cluster", help="Only this cluster.", show_default=False)]
FromBroker = Annotated[
    str, typer.Option("--from", metavar="BROKER", help="The broker that has them.", show_default=False)
]
ToBroker = Annotated[str, typer.Option("--to", metavar="BROKER", help="The broker that gets them.", show_default=False)]


def done_on(out: Out, sentence: str, servers: "list[Server]", **values: object) -> None:
    """Tell what was done, and on which brokers."""
    names = [str(server) for server in servers]
    out.done(f"{sentence} on {', '.join(names)}", **values, brokers=names)
