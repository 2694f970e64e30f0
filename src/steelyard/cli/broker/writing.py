"""Taking a broker out of service and back: clients stop writing to it while what it has is still read.

Name servers tell clients where they may write, each for itself, so all of them are told. It lasts until the broker is
started again or changes a topic of its own; what lasts longer is a setting of the broker: ``brokerPermission=4``.
"""

from typing import TYPE_CHECKING

import typer

from steelyard.cli.broker.noun import app
from steelyard.cli.frame.arguments import BrokerName
from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.upkeep import ToldNameServer

_MOST_NAMED = 5


@app.verb("stop-writes", "steelyard broker stop-writes broker-a", "steelyard broker stop-writes broker-a --yes")
@at_cluster
def _stop_writes(where: Where, out: Out, broker: BrokerName, yes: Yes = False) -> None:
    """Have clients stop writing to a broker, while they go on reading from it."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        others = [each.name for each in admin.cluster() if each.name != broker and each.problem is None]
        admin.servers(broker)
        if others:
            confirm(f"clients would stop writing to {broker}, and write only to {', '.join(others)}", yes)
        else:
            confirm(f"clients would stop writing to {broker}, and no other broker is there to write to", yes)
        told = admin.stop_writes(broker)
    _tell(out, told)
    note(f"clients learn of it within 30 s; it lasts until {broker} is started again or changes a topic")


@app.verb("allow-writes", "steelyard broker allow-writes broker-a")
@at_cluster
def _allow_writes(where: Where, out: Out, broker: BrokerName, yes: Yes = False) -> None:
    """Have clients write to a broker again.

    Name servers then allow it for all topics of the broker, also for those that are read-only by their own settings.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        closed = admin.not_writable(broker)
        if closed:
            named = ", ".join(closed[:_MOST_NAMED]) + (" …" if len(closed) > _MOST_NAMED else "")
            confirm(
                f"clients could then write on {broker} to topics that are read-only by their own settings: {named}", yes
            )
        told = admin.allow_writes(broker)
    _tell(out, told)


def _tell(out: Out, told: "list[ToldNameServer]") -> None:
    out.rows(
        [Column("name_server"), Column("topics", "topics changed", right=True)],
        ({"name_server": each.address, "topics": each.topics, "problem": each.problem} for each in told),
    )
    problems = [each for each in told if each.problem is not None]
    for each in problems:
        note(f"{each.address} was not told: {each.problem}")
    if problems:
        raise typer.Exit(Exit.FAILED)
