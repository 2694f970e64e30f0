"""`steelyard controller`: the servers of Apache RocketMQ 5 that elect masters.

Where they are is learnt from the brokers, which are started with their addresses, or said with ``--controller``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.words import settings
from steelyard.cli.frame.arguments import BrokerName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import BrokerNotFound, ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.controllers import KnownReplica
    from steelyard.client.blocking.admin import Admin

__all__ = ["app"]

app = Noun("controller", "Controllers, which elect masters.")
_config = Noun("config", "Show the settings of controllers, and change some while they run.")

_BROKER_NOT_EXIST = 211

_At = Annotated[
    str | None,
    typer.Option(
        "--controller",
        metavar="ADDR",
        envvar="ROCKETMQ_CONTROLLER",
        help="A controller, host:port; several with ; between them.",
        show_default="as brokers are set up",
        show_envvar=True,
    ),
]
_Cluster = Annotated[str | None, typer.Option("--cluster", help="Its cluster.", show_default="as name servers say")]


@app.verb("show", "steelyard controller show", "steelyard controller show --controller 10.0.0.5:9878 --output json")
@at_cluster
def _show(where: Where, out: Out, at: _At = None) -> None:
    """Show the controllers, and which of them leads."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.controllers(at)
    columns = [Column("controller"), Column("leads"), Column("leader"), Column("group"), Column("peers")]
    rows = (
        {
            "controller": each.address,
            "leads": each.is_leader,
            "leader": each.leader,
            "group": each.group,
            "peers": each.peers,
            "problem": each.problem,
        }
        for each in found
    )
    out.rows(columns, rows)
    for each in found:
        if each.problem is not None:
            note(f"{each.address}: {each.problem}")


@app.verb("replicas", "steelyard controller replicas", "steelyard controller replicas broker-a --output json")
@at_cluster
def _replicas(
    where: Where,
    out: Out,
    brokers: Annotated[
        list[str] | None, typer.Argument(metavar="[BROKER]...", help="Which.", show_default="all brokers")
    ] = None,
    at: _At = None,
) -> None:
    """List the replicas of brokers: who is the master, and who may take its place."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.known_replicas(brokers or None, at)
    columns = [Column("broker"), Column("id", right=True), Column("address")]
    columns += [Column("master"), Column("in_sync"), Column("alive"), Column("master_epoch", right=True)]
    out.rows(columns, map(_row, found))


def _row(replica: "KnownReplica") -> dict[str, object]:
    return {
        "broker": replica.broker,
        "id": replica.broker_id,
        "address": replica.address,
        "master": replica.is_master,
        "in_sync": replica.in_sync,
        "alive": replica.is_alive,
        "master_epoch": replica.master_epoch,
    }


@app.verb("elect", "steelyard controller elect broker-a --id 2", "steelyard controller elect broker-a --id 2 --yes")
@at_cluster
def _elect(
    where: Where,
    out: Out,
    broker: BrokerName,
    broker_id: Annotated[
        int, typer.Option("--id", min=1, help="Of the replica, as the controller counts.", show_default=False)
    ],
    cluster: _Cluster = None,
    at: _At = None,
    yes: Yes = False,
) -> None:
    """Make a replica the master of its broker."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        replicas = {each.broker_id: each for each in admin.known_replicas([broker], at)}
        chosen = replicas.get(broker_id)
        if chosen is None:
            raise _no_replica(broker, [broker_id], replicas)
        if chosen.is_master:
            out.done(f"{broker} {broker_id} is the master already", broker=broker, id=broker_id, address=chosen.address)
            return
        master = next((f"{each.broker_id} ({each.address})" for each in replicas.values() if each.is_master), "nobody")
        warning = "" if chosen.in_sync else ", and it does not have all messages: some would be lost"
        confirm(
            f"{broker} {broker_id} ({chosen.address}) would become master instead of {master}, "
            f"and writes would stop for a moment{warning}",
            yes,
        )
        elected = admin.elect(broker, broker_id, cluster=cluster or _cluster_of(admin, broker), at=at)
    out.done(
        f"{broker} {elected.broker_id} ({elected.address}) is the master, in epoch {elected.master_epoch}",
        broker=broker,
        id=elected.broker_id,
        address=elected.address,
        master_epoch=elected.master_epoch,
    )


@app.verb(
    "forget",
    "steelyard controller forget broker-a --id 3 --cluster DefaultCluster",
    "steelyard controller forget broker-a --cluster DefaultCluster --yes",
)
@at_cluster
def _forget(
    where: Where,
    out: Out,
    broker: BrokerName,
    broker_ids: Annotated[
        list[int] | None,
        typer.Option(
            "--id",
            min=1,
            help="Only this replica, as the controller counts; several by repeating it.",
            show_default="all",
        ),
    ] = None,
    cluster: _Cluster = None,
    even_alive: Annotated[bool, typer.Option("--even-alive", help="Also those that are alive.")] = False,
    at: _At = None,
    yes: Yes = False,
) -> None:
    """Have the controllers forget a broker that is gone for good, or some of its replicas."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        known = admin.known_replicas([broker], at)
        wanted = [each for each in known if not broker_ids or each.broker_id in broker_ids]
        missing = sorted({*(broker_ids or ())} - {each.broker_id for each in known})
        if missing:
            raise _no_replica(broker, missing, [each.broker_id for each in known])
        alive = [each for each in wanted if each.is_alive]
        if alive and not even_alive:
            named = ", ".join(f"{each.broker_id} ({each.address})" for each in alive)
            raise ConfigurationError(f"{broker} {named} is alive", next_step="stop it first, or say --even-alive")
        named = ", ".join(f"{each.broker_id} ({each.address})" for each in wanted)
        kept = [each for each in known if each not in wanted]
        is_last = any(each.in_sync for each in wanted) and kept and not any(each.in_sync for each in kept)
        warning = ", and nobody that is left has all messages" if is_last else ""
        confirm(f"the controllers would forget {broker} {named}{warning}", yes)
        admin.forget_broker(
            broker,
            cluster=cluster or _cluster_of(admin, broker),
            broker_ids=broker_ids,
            even_alive=even_alive,
            at=at,
        )
    out.done(f"the controllers have forgotten {broker} {named}", broker=broker, ids=[each.broker_id for each in wanted])


def _no_replica(broker: str, missing: Iterable[int], known: Iterable[int]) -> BrokerNotFound:
    return BrokerNotFound(
        code=_BROKER_NOT_EXIST,
        server="the controller",
        what=f"{broker} has no replica {', '.join(map(str, missing))}",
        next_step=f"known are: {', '.join(map(str, known))}",
    )


def _cluster_of(admin: "Admin", broker: str) -> str:
    """Return the cluster of a broker; one that is gone is known by controllers alone, which do not tell."""
    try:
        return admin.servers(broker)[0].cluster
    except BrokerNotFound:
        raise ConfigurationError(
            f"name servers do not know {broker} any more, and so not its cluster", next_step="say it with --cluster"
        ) from None


@_config.verb("show", "steelyard controller config show", "steelyard controller config show --output csv")
@at_cluster
def _show_config(where: Where, out: Out, at: _At = None) -> None:
    """Show the settings of every controller, in its own words."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.controller_config(at)
    columns = [Column("controller"), Column("name"), Column("value")]
    rows = (
        {"controller": address, "name": name, "value": value}
        for address, known in found.items()
        for name, value in sorted(known.items())
    )
    out.rows(columns, rows)


@_config.verb(
    "set",
    "steelyard controller config set scanNotActiveBrokerInterval=3000 --dry-run",
    "steelyard controller config set enableElectUncleanMaster=false",
)
@at_cluster
def _set_config(
    where: Where,
    out: Out,
    given: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="What to change, and to what.", show_default=False)
    ],
    at: _At = None,
    dry_run: DryRun = False,
) -> None:
    """Change settings of every controller while it runs."""
    from steelyard.client.blocking.admin import Admin

    wanted = settings(given)
    with Admin(where.connect()) as admin:
        changes = admin.plan_controller_config(wanted, at) if dry_run else admin.set_controller_config(wanted, at)
    rows = (
        {"controller": address, "name": each.name, "before": each.before, "after": each.after}
        for address, told in changes.items()
        for each in told
    )
    out.rows([Column(key) for key in ("controller", "name", "before", "after")], rows)
    if dry_run:
        note("nothing was changed")


app.add_typer(_config)
