"""`steelyard access`: who may get in, and what for. Which verbs count depends on the servers.

Apache RocketMQ from 5.3 on has users and rules about them (`user`, `policy`). Before that a broker keeps accounts in a
file (`account`), and addresses that need none (`addresses`). A Steelyard broker lets everybody in, and says so.
"""

from typing import Annotated

import typer

from steelyard.cli.access.account import account
from steelyard.cli.access.options import AtBroker, AtCluster, done_on
from steelyard.cli.access.policy import policy
from steelyard.cli.access.user import user
from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["app"]

app = Noun("access", "Users and what they may do.")
_addresses = Noun("addresses", "Addresses that need no account, on Apache RocketMQ 4.9.")


@_addresses.verb("show", "steelyard access addresses show")
@at_cluster
def _show(where: Where, out: Out, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """List the addresses that need no account."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.open_addresses(broker=broker, cluster=cluster)
    out.rows(
        [Column("broker"), Column("addresses")],
        ({"broker": server, "addresses": told} for server, told in found.items()),
    )


@_addresses.verb(
    "set",
    "steelyard access addresses set 10.10.103.* 192.168.0.7",
    "steelyard access addresses set --none",
)
@at_cluster
def _set(
    where: Where,
    out: Out,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[IP]...", help="All of them; * stands for any number.", show_default=False),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Everybody needs an account.")] = False,
    file: Annotated[
        str | None,
        typer.Option(help="Which file of accounts, on the broker's machine.", show_default="the first"),
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    yes: Yes = False,
) -> None:
    """Say which addresses need no account; it replaces all that were there."""
    from steelyard.client.blocking.admin import Admin

    wanted = given or []
    if bool(wanted) is none:
        raise ConfigurationError("no address is given", next_step="give some, or say --none")
    with Admin(where.connect()) as admin:
        before = admin.open_addresses(broker=broker, cluster=cluster)
        opened = sorted({each for each in wanted for told in before.values() if each not in told})
        if opened:
            confirm(f"whoever comes from {', '.join(opened)} would need no account any more", yes)
        servers = admin.set_open_addresses(wanted, file=file, broker=broker, cluster=cluster)
    sentence = f"no account is needed from {', '.join(wanted)}" if wanted else "everybody needs an account"
    done_on(out, sentence, servers, addresses=wanted)


@app.verb("versions", "steelyard access versions", "steelyard access versions --cluster DefaultCluster")
@at_cluster
def _versions(where: Where, out: Out, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """List the files of accounts that 4.9 brokers have, and when each changed last."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.account_files(broker=broker, cluster=cluster)
    columns = [Column("broker"), Column("file"), Column("version", right=True), Column("changed_at")]
    rows = (
        {"broker": each.broker, "file": each.path, "version": each.version, "changed_at": each.changed_at}
        for each in found
    )
    out.rows(columns, rows)


for _noun in (user, policy, account, _addresses):
    app.add_typer(_noun)
