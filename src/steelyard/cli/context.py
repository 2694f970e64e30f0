"""`steelyard context`: clusters by name, and which of them the other verbs talk to.

A context is only a saved answer to "where, and how to get in": options on the command line come before it.
"""

import sys
from typing import Annotated

import typer
from msgspec.structs import asdict

from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.contexts import Context, Contexts, contexts_path, load_contexts, no_context, save_contexts
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["app"]

app = Noun("context", "Give clusters names, and choose the one to talk to.")


def _names(incomplete: str) -> list[str]:
    try:
        return [name for name in load_contexts().clusters if name.startswith(incomplete)]
    except ConfigurationError:
        return []  # a shell that completes is no place to complain


_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="What the cluster is called.", show_default=False, autocompletion=_names)
]


@app.verb("ls", "steelyard context ls")
@at_cluster
def _list_contexts(out: Out) -> None:
    """List the clusters that have a name."""
    contexts = load_contexts()
    out.rows(
        [Column("name"), Column("name_servers"), Column("namespace"), Column("chosen")],
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


@app.verb(
    "add",
    "steelyard context add prod --namesrv 'mq-1:9876;mq-2:9876'",
    "steelyard context add eu --namesrv mq-eu:9876 --access-key ops --tls < secret.txt",
)
@at_cluster
def _add_context(where: Where, name: _Name) -> None:
    """Give a cluster a name; the first one is chosen at once. With an access key, its secret may come through stdin."""
    if not name or not name.isprintable():
        raise ConfigurationError(f"{name!r} is no name for a cluster", next_step="give one that can be typed")
    if not where.namesrv:
        raise ConfigurationError(f"where {name!r} is was not said", next_step="give --namesrv host:port")
    secret = where.secret_key
    if where.access_key and secret is None and not sys.stdin.isatty():
        secret = sys.stdin.readline().strip() or None
    made = Context(
        ";".join(where.namesrv),
        where.access_key,
        secret,
        where.tls,
        where.tls_ca,
        where.tls_no_verify,
        where.namespace,
    )
    _check(made)
    contexts = load_contexts()
    save_contexts(Contexts({**contexts.clusters, name: made}, contexts.chosen or name))
    Out().done(f"{name} is {made.namesrv}; written to {contexts_path()}")


def _check(context: Context) -> None:
    """Complain now about what would be refused later."""
    from steelyard.client.connect import Connect

    Connect(context.namesrv, access_key=context.access_key, secret_key=context.secret_key, namespace=context.namespace)


@app.verb("use", "steelyard context use prod")
def _use_context(name: _Name) -> None:
    """Choose the cluster that verbs talk to when nothing else is said."""
    contexts = load_contexts()
    if name not in contexts.clusters:
        raise no_context(name, contexts)
    save_contexts(Contexts(contexts.clusters, name))
    Out().done(f"{name} is used from now on")


@app.verb("show", "steelyard context show", "steelyard context show prod --output json")
@at_cluster
def _show_context(
    out: Out,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Which.", show_default="the chosen one", autocompletion=_names),
    ] = None,
) -> None:
    """Show what is known of a cluster; secrets are not shown."""
    contexts = load_contexts()
    wanted = name or contexts.chosen
    if wanted is None:
        raise ConfigurationError("no context is chosen", next_step="choose one with: steelyard context use NAME")
    if wanted not in contexts.clusters:
        raise no_context(wanted, contexts)
    known = asdict(contexts.clusters[wanted])
    known["secret_key"] = None if known["secret_key"] is None else "(kept)"
    out.one({"name": wanted, **known})


@app.verb("delete", "steelyard context delete prod --yes")
def _delete_context(name: _Name, yes: Yes = False) -> None:
    """Forget a name; the cluster is not touched."""
    contexts = load_contexts()
    if name not in contexts.clusters:
        raise no_context(name, contexts)
    confirm(f"context {name!r} would be forgotten, with its keys", yes)
    left = {each: known for each, known in contexts.clusters.items() if each != name}
    save_contexts(Contexts(left, None if contexts.chosen == name else contexts.chosen))
    Out().done(f"{name} is forgotten")
