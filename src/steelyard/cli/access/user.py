"""`steelyard access user`: who may get in, on Apache RocketMQ from 5.3 on."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.access.options import AtBroker, AtCluster, FromBroker, ToBroker, done_on
from steelyard.cli.access.secrets import FromStdin, Password, secret_of
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.users import UserAccount

__all__ = ["Kind", "UserName", "user"]

user = Noun("user", "Who may get in, on Apache RocketMQ from 5.3 on.")

UserName = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]


class Kind(StrEnum):
    """What a user is."""

    NORMAL = "normal"
    SUPER = "super"


_COLUMNS = (Column("user"), Column("kind"), Column("enabled"), Column("brokers"))


@user.verb("ls", "steelyard access user ls", "steelyard access user ls shop --output json")
@at_cluster
def _list(
    where: Where,
    out: Out,
    part: Annotated[str, typer.Argument(metavar="[PART]", help="Only names with this in it.", show_default=False)] = "",
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> None:
    """List users; one that brokers have in different ways has several rows."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.users(part, broker=broker, cluster=cluster)
    out.rows(_COLUMNS, map(_row, found))


@user.verb("show", "steelyard access user show shop")
@at_cluster
def _show(where: Where, out: Out, name: UserName, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """Show one user; a password is never told."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.user(name, broker=broker, cluster=cluster)
    if len(found) == 1:
        out.one(_row(found[0]))
    else:
        out.rows(_COLUMNS, map(_row, found))


@user.verb(
    "create",
    "steelyard access user create shop",
    "steelyard access user create shop --password-stdin < password.txt",
    "steelyard access user create boss --kind super",
)
@at_cluster
def _create(
    where: Where,
    out: Out,
    name: UserName,
    password: Password = None,
    from_stdin: FromStdin = False,
    kind: Annotated[Kind, typer.Option("--kind", help="A super user may do everything.")] = Kind.NORMAL,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> None:
    """Make a user. Without a password on the command line or from a pipe it is asked for."""
    from steelyard.client.blocking.admin import Admin

    secret = secret_of(password, from_stdin, name="password", needed=True) or ""
    with Admin(where.connect()) as admin:
        servers = admin.create_user(name, secret, kind=kind.value, broker=broker, cluster=cluster)
    done_on(out, f"user {name} is made", servers, user=name, kind=kind.value)


@user.verb(
    "set",
    "steelyard access user set shop --disable",
    "steelyard access user set shop --password-stdin < password.txt",
    "steelyard access user set shop --kind super --yes",
)
@at_cluster
def _set(
    where: Where,
    out: Out,
    name: UserName,
    password: Password = None,
    from_stdin: FromStdin = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for a new password.")] = False,
    kind: Annotated[
        Kind | None, typer.Option("--kind", help="A super user may do everything.", show_default=False)
    ] = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it may get in.", show_default=False)
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    yes: Yes = False,
) -> None:
    """Change a user; what is not given stays."""
    from steelyard.client.blocking.admin import Admin

    secret = secret_of(password, from_stdin, name="password", needed=ask)
    with Admin(where.connect()) as admin:
        before = admin.user(name, broker=broker, cluster=cluster)
        if kind is Kind.SUPER and any(each.kind != Kind.SUPER for each in before):
            confirm(f"user {name} would be able to do everything", yes)
        servers = admin.set_user(
            name,
            password=secret,
            kind=None if kind is None else kind.value,
            enabled=enable,
            broker=broker,
            cluster=cluster,
        )
        after = admin.user(name, broker=broker, cluster=cluster)
    told = after[0]
    done_on(out, f"user {name} is {_in_words(told)}", servers, user=name, kind=told.kind, enabled=told.is_enabled)


@user.verb("delete", "steelyard access user delete shop", "steelyard access user delete shop --yes")
@at_cluster
def _delete(
    where: Where, out: Out, name: UserName, broker: AtBroker = None, cluster: AtCluster = None, yes: Yes = False
) -> None:
    """Delete a user, with all that it may do."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.user(name, broker=broker, cluster=cluster)
        rules = admin.policies(name, broker=broker, cluster=cluster)
        with_rules = f", with its rules on {', '.join(rule.resource for rule in rules)}" if rules else ""
        confirm(f"user {name} would be gone{with_rules}", yes)
        servers = admin.delete_user(name, broker=broker, cluster=cluster)
    done_on(out, f"user {name} is deleted", servers, user=name)


@user.verb(
    "copy",
    "steelyard access user copy --from broker-a --to broker-b --dry-run",
    "steelyard access user copy shop billing --from broker-a --to broker-b --yes",
)
@at_cluster
def _copy(
    where: Where,
    out: Out,
    source: FromBroker,
    target: ToBroker,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", help="Which.", show_default="all users")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy users from one broker to another, with their passwords; those that are there are replaced."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        there = {each.name for each in admin.users(broker=target)}
        wanted = names or [each.name for each in admin.users(broker=source)]
        rows = [{"user": name, "replaced": name in there} for name in wanted]
        for name in wanted:
            admin.user(name, broker=source)
        if not dry_run:
            if replaced := [name for name in wanted if name in there]:
                confirm(f"{', '.join(replaced)} would be replaced on {target}", yes)
            rows = [{"user": each.name, "replaced": each.replaced} for each in admin.copy_users(source, target, wanted)]
    out.rows([Column("user"), Column("replaced")], rows)
    if dry_run:
        note("nothing was changed")


def _row(account: "UserAccount") -> dict[str, object]:
    return {
        "user": account.name,
        "kind": account.kind,
        "enabled": account.is_enabled,
        "brokers": account.servers,
    }


def _in_words(account: "UserAccount") -> str:
    return f"{account.kind} and {'enabled' if account.is_enabled else 'disabled'}"
