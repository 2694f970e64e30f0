"""`steelyard access account`: who may get in and what for, on Apache RocketMQ 4.9, which keeps that in a file."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.access.options import AtBroker, AtCluster, done_on
from steelyard.cli.access.secrets import Secret, SecretFromStdin, secret_of
from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.accounts import PlainAccount

__all__ = ["account"]

account = Noun("account", "Accounts of Apache RocketMQ 4.9, which keeps them in a file.")

_AccessKey = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's access key.", show_default=False)]
_KEYS = ("account", "admin", "topic_default", "group_default", "topics", "groups", "from_address", "brokers")
_COLUMNS = tuple(map(Column, _KEYS))
_FOR_PEOPLE = tuple(map(Column, ("account", "admin", "topics", "groups", "brokers")))


@account.verb("ls", "steelyard access account ls", "steelyard access account ls --output json")
@at_cluster
def _list(where: Where, out: Out, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """List accounts and what they may do; secrets are never told."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.accounts(broker=broker, cluster=cluster)
    out.rows(_FOR_PEOPLE if out.is_table else _COLUMNS, map(_brief if out.is_table else _row, found))


@account.verb("show", "steelyard access account show the-shop")
@at_cluster
def _show(where: Where, out: Out, name: _AccessKey, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """Show one account."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.account(name, broker=broker, cluster=cluster)
    if len(found) == 1:
        out.one(_row(found[0]))
    else:
        out.rows(_COLUMNS, map(_row, found))


@account.verb(
    "set",
    "steelyard access account set the-shop --secret-stdin --topic orders='PUB|SUB' < secret.txt",
    "steelyard access account set the-shop --group billing=SUB --other-topics DENY",
)
@at_cluster
def _set(
    where: Where,
    out: Out,
    name: _AccessKey,
    secret: Secret = None,
    from_stdin: SecretFromStdin = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for the secret.")] = False,
    admin_right: Annotated[
        bool | None, typer.Option("--admin/--no-admin", help="Whether it may do everything.", show_default=False)
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC=PUB|SUB", help="Several by repeating it.", show_default=False),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP=SUB", help="Several by repeating it.", show_default=False),
    ] = None,
    other_topics: Annotated[
        str | None, typer.Option(metavar="DENY|PUB|SUB", help="For topics that are not named.", show_default=False)
    ] = None,
    other_groups: Annotated[
        str | None, typer.Option(metavar="DENY|SUB", help="For groups that are not named.", show_default=False)
    ] = None,
    from_address: Annotated[
        str | None,
        typer.Option(metavar="IP", help="Where it needs no signature from: 10.0.0.*, say.", show_default=False),
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    yes: Yes = False,
) -> None:
    """Make an account or change it; what is not given stays."""
    from steelyard.client.blocking.admin import Admin

    given = secret_of(secret, from_stdin, name="secret", needed=ask)
    with Admin(where.connect()) as admin:
        there = {each.access_key: each.is_admin for each in admin.accounts(broker=broker, cluster=cluster)}
        if admin_right and not there.get(name, False):
            confirm(f"account {name} would be able to do everything", yes)
        servers = admin.set_account(
            name,
            secret=given,
            admin=admin_right,
            topic_default=other_topics,
            group_default=other_groups,
            topics=topics,
            groups=groups,
            addresses=from_address,
            broker=broker,
            cluster=cluster,
        )
    done_on(out, f"account {name} is {'changed' if name in there else 'made'}", servers, account=name)


@account.verb("delete", "steelyard access account delete the-shop", "steelyard access account delete the-shop --yes")
@at_cluster
def _delete(
    where: Where, out: Out, name: _AccessKey, broker: AtBroker = None, cluster: AtCluster = None, yes: Yes = False
) -> None:
    """Delete an account."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.account(name, broker=broker, cluster=cluster)
        confirm(f"account {name} would be gone, and whoever uses it would not get in any more", yes)
        servers = admin.delete_account(name, broker=broker, cluster=cluster)
    done_on(out, f"account {name} is deleted", servers, account=name)


def _brief(account: "PlainAccount") -> dict[str, object]:
    """Return an account as fits on a line: what counts for all others is named ``*``."""

    def with_others(named: tuple[str, ...], default: str | None) -> tuple[str, ...]:
        return (*named, f"*={default}") if default else named

    return {
        **_row(account),
        "topics": with_others(account.topics, account.topic_default),
        "groups": with_others(account.groups, account.group_default),
    }


def _row(account: "PlainAccount") -> dict[str, object]:
    return {
        "account": account.access_key,
        "admin": account.is_admin,
        "topic_default": account.topic_default,
        "group_default": account.group_default,
        "topics": account.topics,
        "groups": account.groups,
        "from_address": account.addresses,
        "brokers": account.servers,
    }
