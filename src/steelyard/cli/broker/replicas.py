"""Replicas of a broker: how far each is behind its master, and under which masters the log was written."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.noun import ReplicaId, app
from steelyard.cli.broker.words import ago, size
from steelyard.cli.frame.arguments import BrokerName
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.controllers import KnownReplica
    from steelyard.client.admin.replicas import ReplicaState
    from steelyard.client.blocking.admin import Admin


@app.verb(
    "replicas",
    "steelyard broker replicas broker-a",
    "steelyard broker replicas broker-a --controller 10.0.0.5:9878",
)
@at_cluster
def _replicas(
    where: Where,
    out: Out,
    broker: BrokerName,
    controller: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="A controller, host:port.", show_default="as the broker is set up"),
    ] = None,
) -> None:
    """Show how the replicas of a broker follow its master."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.replicas(broker)
        known = _by_address(admin, broker, controller)
    columns = [
        Column("id", right=True),
        Column("role"),
        Column("address"),
        Column("log_end", right=True),
        Column("behind_bytes", "behind", right=True, show=size),
        Column("bytes_per_s", "copied/s", right=True, show=size),
        Column("heard_at", "master heard", right=True, show=ago),
    ]
    if known:
        columns += [Column("controller_id", right=True), Column("in_sync")]
    out.rows(columns, (_row(each, known) for each in found))
    for each in found:
        if each.problem is not None:
            note(f"{each.server}: {each.problem}")


def _by_address(admin: "Admin", broker: str, controller: str | None) -> "dict[str, KnownReplica]":
    """Return what a controller knows of the replicas, if there is one; one that was named has to answer."""
    from steelyard.errors import NotFound, SteelyardError

    try:
        return {each.address: each for each in admin.known_replicas([broker], controller)}
    except NotFound:
        return {}
    except SteelyardError as error:
        if controller is not None:
            raise
        note(f"the controller is left out: {error.what}")
        return {}


def _row(replica: "ReplicaState", known: "dict[str, KnownReplica]") -> dict[str, object]:
    at_controller = known.get(replica.server.address)
    return {
        "id": replica.server.broker_id,
        "role": "master" if replica.server.is_master else "replica",
        "address": replica.server.address,
        "log_end": replica.log_end,
        "behind_bytes": replica.behind_bytes,
        "bytes_per_s": replica.bytes_a_second,
        "heard_at": replica.heard_at,
        "followers": replica.lines,
        "controller_id": None if at_controller is None else at_controller.broker_id,
        "in_sync": None if at_controller is None else at_controller.in_sync,
        "problem": replica.problem,
    }


@app.verb("epochs", "steelyard broker epochs broker-a", "steelyard broker epochs broker-a --id 2 --output csv")
@at_cluster
def _epochs(where: Where, out: Out, broker: BrokerName, broker_id: ReplicaId = None) -> None:
    """List under which masters a broker's log was written."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        epochs = admin.epochs(broker, broker_id=broker_id)
    columns = [Column(key, right=True) for key in ("epoch", "start", "end")]
    out.rows(columns, ({"epoch": each.epoch, "start": each.start, "end": each.end} for each in epochs))
