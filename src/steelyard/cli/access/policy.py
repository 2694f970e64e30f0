"""`steelyard access policy`: what users may do, on Apache RocketMQ from 5.3 on."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.access.options import AtBroker, AtCluster, FromBroker, ToBroker, done_on
from steelyard.cli.access.user import UserName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.policies import Rule

__all__ = ["policy"]

policy = Noun("policy", "What users may do, on Apache RocketMQ from 5.3 on.")

_On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="RESOURCE",
        help="topic:NAME, group:NAME, cluster:NAME, or *; NAME may end with *.",
        show_default=False,
    ),
]
_Actions = Annotated[
    str,
    typer.Option(
        "--may",
        metavar="ACTIONS",
        help="With commas: pub, sub, create, update, delete, get, list, or all.",
        show_default=False,
    ),
]
_Deny = Annotated[bool, typer.Option("--deny", help="That is what it may not do, whatever other rules say.")]
_Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--from-address", metavar="IP", help="Only from there; an address or a network, several by repeating it."
    ),
]
_COLUMNS = (
    Column("user"),
    Column("resource"),
    Column("allows"),
    Column("actions"),
    Column("sources", "from"),
    Column("brokers"),
)


@policy.verb("ls", "steelyard access policy ls", "steelyard access policy ls --on topic:orders --output json")
@at_cluster
def _list(
    where: Where,
    out: Out,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="PART", help="Only resources with this in their name.", show_default=False),
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> None:
    """List all rules about what users may do."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.policies(resource=on, broker=broker, cluster=cluster)
    out.rows(_COLUMNS, map(_row, found))


@policy.verb("show", "steelyard access policy show shop")
@at_cluster
def _show(where: Where, out: Out, user: UserName, broker: AtBroker = None, cluster: AtCluster = None) -> None:
    """List what one user may do."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.user(user, broker=broker, cluster=cluster)
        found = admin.policies(user, broker=broker, cluster=cluster)
    out.rows(_COLUMNS, map(_row, found))


@policy.verb(
    "create",
    "steelyard access policy create shop --on topic:orders --may pub,sub",
    "steelyard access policy create shop --on 'group:billing-*' --may sub --from-address 10.0.0.0/8",
    "steelyard access policy create shop --on topic:secrets --may all --deny",
)
@at_cluster
def _create(
    where: Where,
    out: Out,
    user: UserName,
    on: _On,
    may: _Actions,
    deny: _Deny = False,
    sources: _Sources = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> None:
    """Add a rule about what a user may do with something."""
    from steelyard.client.blocking.admin import Admin

    rule = _rule(user, on, may, deny, sources)
    with Admin(where.connect()) as admin:
        servers = admin.create_policy(rule, broker=broker, cluster=cluster)
    done_on(out, _sentence(rule), servers, **_facts(rule))


@policy.verb("set", "steelyard access policy set shop --on topic:orders --may pub")
@at_cluster
def _set(
    where: Where,
    out: Out,
    user: UserName,
    on: _On,
    may: _Actions,
    deny: _Deny = False,
    sources: _Sources = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> None:
    """Replace the rule about what a user may do with something."""
    from steelyard.client.blocking.admin import Admin

    rule = _rule(user, on, may, deny, sources)
    with Admin(where.connect()) as admin:
        servers = admin.set_policy(rule, broker=broker, cluster=cluster)
    done_on(out, _sentence(rule), servers, **_facts(rule))


@policy.verb(
    "delete",
    "steelyard access policy delete shop --on topic:orders",
    "steelyard access policy delete shop --yes",
)
@at_cluster
def _delete(
    where: Where,
    out: Out,
    user: UserName,
    on: Annotated[
        str | None, typer.Option("--on", metavar="RESOURCE", help="Only this rule.", show_default="all of them")
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    yes: Yes = False,
) -> None:
    """Delete a user's rule on something, or all of its rules."""
    from steelyard.client.admin.policies import resource_named
    from steelyard.client.blocking.admin import Admin

    resource = None if on is None else resource_named(on)
    with Admin(where.connect()) as admin:
        if resource is None:
            rules = admin.policies(user, broker=broker, cluster=cluster)
            confirm(f"user {user} would lose all of its rules: {', '.join(rule.resource for rule in rules)}", yes)
        servers = admin.delete_policy(user, resource, broker=broker, cluster=cluster)
    done_on(out, f"user {user} has no rule on {resource or 'anything'} any more", servers, user=user, resource=resource)


@policy.verb(
    "copy",
    "steelyard access policy copy --from broker-a --to broker-b --dry-run",
    "steelyard access policy copy shop --from broker-a --to broker-b",
)
@at_cluster
def _copy(
    where: Where,
    out: Out,
    source: FromBroker,
    target: ToBroker,
    users: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", help="Whose.", show_default="all users")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy rules from one broker to another; those on the same resources are replaced."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        rules = admin.policies(broker=source)
        there = {each.user for each in admin.policies(broker=target)}
        wanted = users or sorted({each.user for each in rules})
        rows = [
            {"user": user, "rules": sum(rule.user == user for rule in rules), "replaced": user in there}
            for user in wanted
        ]
        if not dry_run:
            if replaced := [user for user in wanted if user in there]:
                confirm(f"rules of {', '.join(replaced)} would be replaced on {target}", yes)
            admin.copy_policies(source, target, wanted)
    out.rows([Column("user"), Column("rules", right=True), Column("replaced")], rows)
    if dry_run:
        note("nothing was changed")


def _rule(user: str, on: str, may: str, deny: bool, sources: list[str] | None) -> "Rule":
    from steelyard.client.admin.policies import Rule, action_named, resource_named

    actions = tuple(action_named(each) for each in may.split(",") if each.strip())
    return Rule(user, resource_named(on), actions, not deny, tuple(sources or ()))


def _facts(rule: "Rule") -> dict[str, object]:
    return {
        "user": rule.user,
        "resource": rule.resource,
        "allows": rule.allows,
        "actions": rule.actions,
        "sources": rule.sources,
    }


def _row(rule: "Rule") -> dict[str, object]:
    return {**_facts(rule), "brokers": rule.servers, "kind": rule.kind}


def _sentence(rule: "Rule") -> str:
    where = f" from {', '.join(rule.sources)}" if rule.sources else ""
    actions = ", ".join(rule.actions).lower()
    return f"user {rule.user} may {'' if rule.allows else 'not '}{actions} on {rule.resource}{where}, says a rule"
