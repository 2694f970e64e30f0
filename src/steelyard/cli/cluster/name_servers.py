"""`steelyard cluster name-server` and `steelyard cluster kv`: name servers, their settings, and what they keep.

Name servers do not know of each other, so what is set is set at each of those that were given.
"""

from collections.abc import Mapping
from typing import Annotated

import typer

from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["key_values", "name_servers"]

name_servers = Noun("name-server", "Look at name servers, and change their settings.")
_config = Noun("config", "Show the settings of name servers, and change some while they run.")
key_values = Noun("kv", "Settings that name servers keep by namespace and key.")

_Space = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.", show_default=False)]
_Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.", show_default=False)]


@name_servers.verb("ls", "steelyard cluster name-server ls")
@at_cluster
def _list(where: Where, out: Out) -> None:
    """List the name servers, and whether they answer. It ends with 5 if none does."""
    from dataclasses import asdict

    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.name_servers()
    out.rows([Column("address"), Column("brokers", right=True), Column("problem")], map(asdict, found))
    if all(each.problem is not None for each in found):
        raise typer.Exit(Exit.UNREACHABLE)


@_config.verb(
    "show", "steelyard cluster name-server config show", "steelyard cluster name-server config show orderMessageEnable"
)
@at_cluster
def _show_config(
    where: Where,
    out: Out,
    name: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these settings.", show_default=False)
    ] = None,
) -> None:
    """Show the settings of name servers, in their own words."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        _print_settings(out, admin.name_server_config(name or ()))


@_config.verb("set", "steelyard cluster name-server config set orderMessageEnable=true")
@at_cluster
def _set_config(
    where: Where,
    out: Out,
    setting: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="What to set.", show_default=False)],
) -> None:
    """Change settings of all name servers while they run."""
    from steelyard.client.blocking.admin import Admin

    wanted = {}
    for each in setting:
        name, sign, value = each.partition("=")
        if not (name and sign):
            raise ConfigurationError(f"{each!r} is no setting", next_step="write NAME=VALUE")
        wanted[name] = value
    with Admin(where.connect()) as admin:
        admin.set_name_server_config(wanted)
        _print_settings(out, admin.name_server_config(wanted))


name_servers.add_typer(_config)


def _print_settings(out: Out, found: Mapping[str, Mapping[str, str]]) -> None:
    out.rows(
        [Column("address"), Column("name"), Column("value")],
        (
            {"address": address, "name": name, "value": value}
            for address, settings in found.items()
            for name, value in settings.items()
        ),
    )


@key_values.verb("ls", "steelyard cluster kv ls ORDER_TOPIC_CONFIG")
@at_cluster
def _list_values(where: Where, out: Out, space: _Space) -> None:
    """List what is kept in a namespace."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = admin.key_values(space)
    out.rows([Column("key"), Column("value")], ({"key": key, "value": value} for key, value in found.items()))


@key_values.verb("get", "steelyard cluster kv get ORDER_TOPIC_CONFIG orders")
@at_cluster
def _get_value(where: Where, out: Out, space: _Space, key: _Key) -> None:
    """Print what is kept under a key."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        value = admin.key_value(space, key)
    out.done(value, namespace=space, key=key, value=value)


@key_values.verb("set", "steelyard cluster kv set deploy colour green")
@at_cluster
def _set_value(
    where: Where,
    out: Out,
    space: _Space,
    key: _Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="What to keep there.", show_default=False)],
) -> None:
    """Keep a value under a key."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.set_key_value(space, key, value)
    out.done(f"{key} in {space} is {value}", namespace=space, key=key, value=value)


@key_values.verb("delete", "steelyard cluster kv delete deploy colour --yes")
@at_cluster
def _delete_value(where: Where, out: Out, space: _Space, key: _Key, yes: Yes = False) -> None:
    """Forget what is kept under a key."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        value = admin.key_value(space, key)
        confirm(f"{key!r} in {space!r} is {value!r}, and would be forgotten", yes)
        admin.delete_key_value(space, key)
    out.done(f"{key} in {space} is forgotten", namespace=space, key=key)
