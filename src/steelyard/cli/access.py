"""`steelyard access`: users and policies (ACL 2.0), which Apache RocketMQ has from 5.3 on.

Every instance of a broker keeps its own, so a change is made on each of them. A password comes from a pipe or is asked
for at a terminal; on the command line, where everyone on the machine can see it, it is the last choice.
"""

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import BrokerOption, ClusterOption, DryRunOption, YesOption, confirm
from steelyard.cli.shared.output import Output, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.access import AccessPolicy, AccessUser
    from steelyard.client.admin.admin_session import BrokerInstance
    from steelyard.client.sync.admin import Admin

app = CommandGroup("access", "Users and what they may do.")
_user_commands = CommandGroup("user", "Users, on Apache RocketMQ from 5.3 on.")
_policy_commands = CommandGroup("policy", "What users may do, on Apache RocketMQ from 5.3 on.")
app.add_command(_user_commands)
app.add_command(_policy_commands)


_MAX_PASSWORD_CHARS = 4_096

_PasswordOption = Annotated[str | None, option("--password", help="Safer through --password-stdin.")]
_PasswordStdinOption = Annotated[bool, option("--password-stdin", help="Read the password from stdin, one line.")]


def _read_password(given: str | None, from_stdin: bool, *, required: bool) -> str | None:
    """Return the password; ask a person for it if it is required and not given."""
    if given is not None and from_stdin:
        raise ConfigurationError("the password is given twice", next_step="give --password or --password-stdin")
    found = given
    if from_stdin:
        found = sys.stdin.readline(_MAX_PASSWORD_CHARS).rstrip("\r\n")
    elif found is None and required:
        found = _ask_password()
    if found is not None and not found.strip():
        raise ConfigurationError("the password is empty", next_step="give at least one character")
    return found


def _ask_password() -> str:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError("the password is missing", next_step="pipe it in, with --password-stdin")
    from getpass import getpass

    first = getpass("password: ", stream=sys.stderr)
    if getpass("password, once more: ", stream=sys.stderr) != first:
        raise ConfigurationError("the two passwords differ", next_step="try again")
    return first


_SourceBrokerOption = Annotated[str, option("--from", metavar="BROKER", help="The broker that has them.")]
_TargetBrokerOption = Annotated[str, option("--to", metavar="BROKER", help="The broker that gets them.")]


def _print_result_on(out: Output, sentence: str, servers: "list[BrokerInstance]", **values: object) -> None:
    """Print what was done, and on which brokers."""
    names = [str(server) for server in servers]
    out.print_result(f"{sentence} on {', '.join(names)}", **values, brokers=names)


_UserArgument = Annotated[str, argument(metavar="USER", help="The user's name.")]


class _UserKind(StrEnum):
    """What a user may do: by policies, or everything."""

    NORMAL = "normal"
    SUPER = "super"


_USER_COLUMNS = columns("user", "kind", "enabled", "brokers")


@_user_commands.subcommand("ls", "steelyard access user ls", "steelyard access user ls shop --output json")
def _list_users(
    admin: "Admin",
    out: Output,
    part: Annotated[str, argument(metavar="[PART]", help="Only names that contain this.")] = "",
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
) -> None:
    """List users; one that differs between brokers has several rows."""
    found = admin.access.users(part, broker=broker, cluster=cluster)
    out.print_rows(_USER_COLUMNS, map(_user_row, found))


@_user_commands.subcommand("show", "steelyard access user show shop")
def _show_user(
    admin: "Admin", out: Output, name: _UserArgument, broker: BrokerOption = None, cluster: ClusterOption = None
) -> None:
    """Show one user, never its password."""
    found = admin.access.user(name, broker=broker, cluster=cluster)
    if len(found) == 1:
        out.print_object(_user_row(found[0]))
    else:
        out.print_rows(_USER_COLUMNS, map(_user_row, found))


@_user_commands.subcommand(
    "create",
    "steelyard access user create shop",
    "steelyard access user create shop --password-stdin < password.txt",
    "steelyard access user create boss --kind super",
)
def _create_user(
    admin: "Admin",
    out: Output,
    name: _UserArgument,
    password: _PasswordOption = None,
    from_stdin: _PasswordStdinOption = False,
    kind: Annotated[_UserKind, option(help="A super user may do everything.")] = _UserKind.NORMAL,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a user; the password is asked for unless it is given."""
    secret = _read_password(password, from_stdin, required=True) or ""
    servers = admin.access.create_user(name, secret, kind=kind.value, broker=broker, cluster=cluster)
    _print_result_on(out, f"user {name} is created", servers, user=name, kind=kind.value)


@_user_commands.subcommand(
    "set",
    "steelyard access user set shop --disable",
    "steelyard access user set shop --password-stdin < password.txt",
    "steelyard access user set shop --kind super --yes",
)
def _set_user(
    admin: "Admin",
    out: Output,
    name: _UserArgument,
    password: _PasswordOption = None,
    from_stdin: _PasswordStdinOption = False,
    ask: Annotated[bool, option(help="Ask for a new password.")] = False,
    kind: Annotated[_UserKind | None, option(help="A super user may do everything.")] = None,
    enable: Annotated[bool | None, option("--enable/--disable", help="Whether it may connect.")] = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    yes: YesOption = False,
) -> None:
    """Change a user; settings not given stay."""
    secret = _read_password(password, from_stdin, required=ask)
    before = admin.access.user(name, broker=broker, cluster=cluster)
    if kind is _UserKind.SUPER and any(each.kind != _UserKind.SUPER for each in before):
        confirm(f"user {name} would be able to do everything", yes)
    servers = admin.access.set_user(
        name,
        password=secret,
        kind=None if kind is None else kind.value,
        enabled=enable,
        broker=broker,
        cluster=cluster,
    )
    after = admin.access.user(name, broker=broker, cluster=cluster)
    kind_now, is_enabled = after[0].kind, after[0].is_enabled
    sentence = f"user {name} is {kind_now} and {'enabled' if is_enabled else 'disabled'}"
    _print_result_on(out, sentence, servers, user=name, kind=kind_now, enabled=is_enabled)


@_user_commands.subcommand("delete", "steelyard access user delete shop", "steelyard access user delete shop --yes")
def _delete_user(
    admin: "Admin",
    out: Output,
    name: _UserArgument,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    yes: YesOption = False,
) -> None:
    """Delete a user and its policies."""
    admin.access.user(name, broker=broker, cluster=cluster)
    policies = admin.access.policies(name, broker=broker, cluster=cluster)
    with_policies = f", with its policies on {', '.join(policy.resource for policy in policies)}" if policies else ""
    confirm(f"user {name} would be deleted{with_policies}", yes)
    servers = admin.access.delete_user(name, broker=broker, cluster=cluster)
    _print_result_on(out, f"user {name} is deleted", servers, user=name)


@_user_commands.subcommand(
    "copy",
    "steelyard access user copy --from broker-a --to broker-b --dry-run",
    "steelyard access user copy shop billing --from broker-a --to broker-b --yes",
)
def _copy_users(
    admin: "Admin",
    out: Output,
    source: _SourceBrokerOption,
    target: _TargetBrokerOption,
    names: Annotated[list[str] | None, argument(metavar="[USER]...", help="Which.", show_default="all users")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy users from one broker to another, with their passwords; existing ones are replaced."""
    there = {each.name for each in admin.access.users(broker=target)}
    wanted = names or [each.name for each in admin.access.users(broker=source)]
    rows = [{"user": name, "replaced": name in there} for name in wanted]
    for name in wanted:
        admin.access.user(name, broker=source)
    if not dry_run:
        if replaced := [name for name in wanted if name in there]:
            confirm(f"{', '.join(replaced)} would be replaced on {target}", yes)
        rows = [
            {"user": each.name, "replaced": each.replaced} for each in admin.access.copy_users(source, target, wanted)
        ]
    out.print_rows(columns("user", "replaced"), rows)
    if dry_run:
        print_note("nothing was changed")


def _user_row(user: "AccessUser") -> dict[str, object]:
    return {"user": user.name, "kind": user.kind, "enabled": user.is_enabled, "brokers": user.servers}


_ResourceOption = Annotated[
    str, option("--on", metavar="RESOURCE", help="topic:NAME, group:NAME, cluster:NAME, or *; NAME may end with *.")
]
_ActionsOption = Annotated[
    str, option("--may", metavar="ACTIONS", help="With commas: pub, sub, create, update, delete, get, list, or all.")
]
_DenyOption = Annotated[bool, option("--deny", help="Deny these actions, even if other policies allow them.")]
_SourcesOption = Annotated[
    list[str] | None, option("--from-address", metavar="IP", help="Only from this address or network; can be repeated.")
]
_POLICY_COLUMNS = columns("user", "resource", "allows", "actions", "sources:from", "brokers")


@_policy_commands.subcommand(
    "ls", "steelyard access policy ls", "steelyard access policy ls --on topic:orders --output json"
)
def _list_policies(
    admin: "Admin",
    out: Output,
    on: Annotated[str | None, option(metavar="PART", help="Only resources whose name contains this.")] = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
) -> None:
    """List the policies of all users."""
    found = admin.access.policies(resource=on, broker=broker, cluster=cluster)
    out.print_rows(_POLICY_COLUMNS, map(_policy_row, found))


@_policy_commands.subcommand("show", "steelyard access policy show shop")
def _show_policies(
    admin: "Admin", out: Output, user: _UserArgument, broker: BrokerOption = None, cluster: ClusterOption = None
) -> None:
    """List the policies of one user."""
    admin.access.user(user, broker=broker, cluster=cluster)
    found = admin.access.policies(user, broker=broker, cluster=cluster)
    out.print_rows(_POLICY_COLUMNS, map(_policy_row, found))


def _policy_command(
    summary: str, change: "Callable[[Admin], Callable[..., list[BrokerInstance]]]"
) -> Callable[..., None]:
    """Return a command that makes a policy of its options and has it stored by ``change``."""

    def run(
        admin: "Admin",
        out: Output,
        user: _UserArgument,
        on: _ResourceOption,
        may: _ActionsOption,
        deny: _DenyOption = False,
        sources: _SourcesOption = None,
        broker: BrokerOption = None,
        cluster: ClusterOption = None,
    ) -> None:
        policy = _make_policy(user, on, may, deny, sources)
        servers = change(admin)(policy, broker=broker, cluster=cluster)
        _print_result_on(out, _policy_sentence(policy), servers, **_policy_fields(policy))

    run.__doc__ = summary
    return run


_policy_commands.subcommand(
    "create",
    "steelyard access policy create shop --on topic:orders --may pub,sub",
    "steelyard access policy create shop --on 'group:billing-*' --may sub --from-address 10.0.0.0/8",
    "steelyard access policy create shop --on topic:secrets --may all --deny",
)(_policy_command("Create a policy: what a user may do with a resource.", lambda admin: admin.access.create_policy))
_policy_commands.subcommand("set", "steelyard access policy set shop --on topic:orders --may pub")(
    _policy_command("Replace the policy of a user on a resource.", lambda admin: admin.access.set_policy)
)


@_policy_commands.subcommand(
    "delete",
    "steelyard access policy delete shop --on topic:orders",
    "steelyard access policy delete shop --yes",
)
def _delete_policy(
    admin: "Admin",
    out: Output,
    user: _UserArgument,
    on: Annotated[
        str | None, option(metavar="RESOURCE", help="Only the policy on this resource.", show_default="all of them")
    ] = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    yes: YesOption = False,
) -> None:
    """Delete the policy of a user on a resource, or all of its policies."""
    from steelyard.client.admin.access import parse_resource

    resource = None if on is None else parse_resource(on)
    if resource is None:
        policies = admin.access.policies(user, broker=broker, cluster=cluster)
        confirm(f"user {user} would lose all of its policies: {', '.join(policy.resource for policy in policies)}", yes)
    servers = admin.access.delete_policy(user, resource, broker=broker, cluster=cluster)
    _print_result_on(
        out, f"user {user} has no policy on {resource or 'anything'} any more", servers, user=user, resource=resource
    )


@_policy_commands.subcommand(
    "copy",
    "steelyard access policy copy --from broker-a --to broker-b --dry-run",
    "steelyard access policy copy shop --from broker-a --to broker-b",
)
def _copy_policies(
    admin: "Admin",
    out: Output,
    source: _SourceBrokerOption,
    target: _TargetBrokerOption,
    users: Annotated[list[str] | None, argument(metavar="[USER]...", help="Whose.", show_default="all users")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy policies from one broker to another; those on the same resources are replaced."""
    policies = admin.access.policies(broker=source)
    there = {each.user for each in admin.access.policies(broker=target)}
    wanted = users or sorted({each.user for each in policies})
    rows = [
        {"user": user, "rules": sum(policy.user == user for policy in policies), "replaced": user in there}
        for user in wanted
    ]
    if not dry_run:
        if replaced := [user for user in wanted if user in there]:
            confirm(f"policies of {', '.join(replaced)} would be replaced on {target}", yes)
        admin.access.copy_policies(source, target, wanted)
    out.print_rows(columns("user", "#rules", "replaced"), rows)
    if dry_run:
        print_note("nothing was changed")


def _make_policy(user: str, on: str, may: str, deny: bool, sources: list[str] | None) -> "AccessPolicy":
    from steelyard.client.admin.access import AccessPolicy, parse_action, parse_resource

    actions = tuple(parse_action(each) for each in may.split(",") if each.strip())
    return AccessPolicy(user, parse_resource(on), actions, not deny, tuple(sources or ()))


def _policy_fields(policy: "AccessPolicy", **more: object) -> dict[str, object]:
    return fields_of(policy, "user", "resource", "allows", "actions", "sources", **more)


def _policy_row(policy: "AccessPolicy") -> dict[str, object]:
    return _policy_fields(policy, brokers=policy.servers, kind=policy.kind)


def _policy_sentence(policy: "AccessPolicy") -> str:
    sources = f" from {', '.join(policy.sources)}" if policy.sources else ""
    actions = ", ".join(policy.actions).lower()
    return f"user {policy.user} may {'' if policy.allows else 'not '}{actions} on {policy.resource}{sources}"
