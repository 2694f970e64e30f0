"""`steelyard broker config`: the settings of a broker, and changing some while it runs."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.noun import ReplicaId
from steelyard.cli.broker.words import settings
from steelyard.cli.frame.arguments import BrokerName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.servers import Server

__all__ = ["config"]

_HIDDEN = "(hidden)"

config = Noun("config", "Show the settings of a broker, and change some while it runs.")


@config.verb(
    "show",
    "steelyard broker config show broker-a",
    "steelyard broker config show broker-a 'flush*'",
    "steelyard broker config show broker-a --differs",
)
@at_cluster
def _show(
    where: Where,
    out: Out,
    broker: BrokerName,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these; * stands for anything.", show_default=False),
    ] = None,
    broker_id: ReplicaId = None,
    differs: Annotated[
        bool, typer.Option("--differs", help="Only those that another broker of the cluster has otherwise.")
    ] = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show passwords and secrets too.")] = False,
) -> None:
    """Show the settings of a broker, in its own words."""
    from steelyard.client.admin.brokers import missing_setting
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        known = admin.broker_config(broker, broker_id=broker_id)
        others = {}
        if differs:
            mine = admin.servers(broker)[0].cluster
            found = [each for each in admin.servers(cluster=mine) if each.is_master and each.broker != broker]
            others = {each.broker: admin.broker_config(each.broker) for each in found}
    for name in names or ():
        if "*" not in name and name not in known:
            raise missing_setting(name, known, broker)
    shown = [name for name in sorted(known) if not names or any(fnmatchcase(name, each) for each in names)]
    rows = [
        {
            "name": name,
            **{key: _shown(name, there.get(name), reveal) for key, there in {"value": known, **others}.items()},
        }
        for name in shown
        if not differs or any(there.get(name) != known[name] for there in others.values())
    ]
    out.rows([Column("name"), Column("value", broker if differs else "value"), *map(Column, others)], rows)


def _shown(name: str, value: str | None, reveal: bool) -> str | None:
    """Hide what is nobody's business; it is asked for by the one who looks, not by those behind him."""
    from steelyard.client.admin.brokers import is_secret

    return _HIDDEN if value and is_secret(name) and not reveal else value


@config.verb(
    "set",
    "steelyard broker config set broker-a fileReservedTime=48 --dry-run",
    "steelyard broker config set broker-a flushDiskType=SYNC_FLUSH --everywhere --yes",
)
@at_cluster
def _set(
    where: Where,
    out: Out,
    broker: BrokerName,
    given: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="What to change, and to what.", show_default=False)
    ],
    broker_id: ReplicaId = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="On all brokers of its cluster, replicas too.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Change settings of a broker while it runs."""
    from steelyard.client.blocking.admin import Admin

    wanted = settings(given)
    with Admin(where.connect()) as admin:
        servers = admin.servers(broker)
        if everywhere:
            servers = admin.servers(cluster=servers[0].cluster)
        else:
            servers = [each for each in servers if each.broker_id == (broker_id or 0)] or servers[:1]
        planned = {each: admin.plan_broker_config(each.broker, wanted, broker_id=each.broker_id) for each in servers}
        if not dry_run:
            if everywhere:
                confirm(f"{', '.join(wanted)} would be set on {', '.join(map(str, servers))}", yes)
            planned = {each: admin.set_broker_config(each.broker, wanted, broker_id=each.broker_id) for each in servers}
    rows = [
        _row(server, change.name, change.before, change.after) for server, each in planned.items() for change in each
    ]
    out.rows([Column(key) for key in ("broker", "name", "before", "after")], rows)
    if dry_run:
        note("nothing was changed")
    for row in rows:
        if not dry_run and row["after"] != wanted[str(row["name"])]:
            note(f"{row['broker']} was told {row['name']}={wanted[str(row['name'])]}, and says {row['after']}")


def _row(server: "Server", name: str, before: str, after: str) -> dict[str, object]:
    return {
        "broker": str(server),
        "name": name,
        "before": before,
        "after": after,
        "id": server.broker_id,
        "address": server.address,
    }
