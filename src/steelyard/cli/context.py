"""`steelyard context`: named clusters, and the one that commands use by default.

A context keeps the address, keys and TLS settings of a cluster; options on the command line come before it.
"""

import sys
from typing import Annotated

from msgspec.structs import asdict

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.contexts import (
    ClusterContext,
    ClusterContexts,
    contexts_path,
    find_context,
    load_contexts,
    save_contexts,
)
from steelyard.cli.shared.options import ClientOptions, YesOption, confirm
from steelyard.cli.shared.output import Output, columns
from steelyard.cli.shared.parameters import argument
from steelyard.errors import ConfigurationError

app = CommandGroup("context", "Name clusters, and choose the one to use.")


def _complete_context_names(incomplete: str) -> list[str]:
    try:
        return [name for name in load_contexts().clusters if name.startswith(incomplete)]
    except ConfigurationError:
        return []  # completion prints no errors


_ContextArgument = Annotated[
    str, argument(metavar="NAME", help="The cluster's name.", complete=_complete_context_names)
]


@app.subcommand("ls", "steelyard context ls")
def _list_contexts(out: Output) -> None:
    """List named clusters."""
    contexts = load_contexts()
    out.print_rows(
        columns("name", "name_servers", "namespace", "chosen"),
        (
            {
                "name": name,
                "name_servers": each.namesrv,
                "namespace": each.namespace or None,
                "chosen": name == contexts.chosen,
            }
            for name, each in sorted(contexts.clusters.items())
        ),
    )


@app.subcommand(
    "add",
    "steelyard context add prod --namesrv 'mq-1:9876;mq-2:9876'",
    "steelyard context add eu --namesrv mq-eu:9876 --access-key ops --tls < secret.txt",
)
def _add_context(client: ClientOptions, name: _ContextArgument) -> None:
    """Name a cluster; the first one is used by default. With --access-key, the secret may come through stdin."""
    if not name or not name.isprintable():
        raise ConfigurationError(f"{name!r} is no name for a cluster", next_step="give printable characters")
    if not client.namesrv:
        raise ConfigurationError(f"the address of {name!r} is missing", next_step="give --namesrv host:port")
    secret = client.secret_key
    if client.access_key and secret is None and not sys.stdin.isatty():
        secret = sys.stdin.readline().strip() or None
    made = ClusterContext(
        ";".join(client.namesrv),
        client.access_key,
        secret,
        client.tls,
        client.tls_ca,
        client.tls_no_verify,
        client.namespace,
    )
    _validate_context(made)
    contexts = load_contexts()
    save_contexts(ClusterContexts({**contexts.clusters, name: made}, contexts.chosen or name))
    Output().print_result(f"{name} is {made.namesrv}; written to {contexts_path()}")


def _validate_context(context: ClusterContext) -> None:
    """Raise now for settings that would fail later."""
    from steelyard.client.config import ClientConfig

    ClientConfig(
        context.namesrv, access_key=context.access_key, secret_key=context.secret_key, namespace=context.namespace
    )


@app.subcommand("use", "steelyard context use prod")
def _use_context(name: _ContextArgument) -> None:
    """Choose the cluster that commands use by default."""
    contexts = load_contexts()
    find_context(contexts, name)
    save_contexts(ClusterContexts(contexts.clusters, name))
    Output().print_result(f"{name} is used by default now")


@app.subcommand("show", "steelyard context show", "steelyard context show prod --output json")
def _show_context(
    out: Output,
    name: Annotated[
        str | None,
        argument(metavar="[NAME]", help="Which.", show_default="the chosen one", complete=_complete_context_names),
    ] = None,
) -> None:
    """Show the settings of a named cluster, without secrets."""
    contexts = load_contexts()
    wanted = name or contexts.chosen
    if wanted is None:
        raise ConfigurationError("no context is chosen", next_step="choose one with: steelyard context use NAME")
    known = asdict(find_context(contexts, wanted))
    known["secret_key"] = None if known["secret_key"] is None else "(kept)"
    out.print_object({"name": wanted, **known})


@app.subcommand("delete", "steelyard context delete prod --yes")
def _delete_context(name: _ContextArgument, yes: YesOption = False) -> None:
    """Delete a name; the cluster is not touched."""
    contexts = load_contexts()
    find_context(contexts, name)
    confirm(f"context {name!r} would be deleted, with its keys", yes)
    left = {each: known for each, known in contexts.clusters.items() if each != name}
    save_contexts(ClusterContexts(left, None if contexts.chosen == name else contexts.chosen))
    Output().print_result(f"{name} is deleted")
