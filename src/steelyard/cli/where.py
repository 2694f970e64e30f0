"""Where the cluster is: the options that every verb has which talks to one, declared once.

A verb takes a `Connect` first and is wrapped by `at_cluster`; on the command line that is ``--namesrv`` and the others
below. Without ``--namesrv`` the environment's NAMESRV_ADDR counts, and then this machine.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from steelyard.client.connect import Connect

__all__ = ["at_cluster"]

_PANEL = "The cluster"


def _options(
    *,
    namesrv: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDR",
            help="A name server, host:port; several by repeating it, or with ; between them. Also: NAMESRV_ADDR.",
            show_default="localhost:9876",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    access_key: Annotated[
        str | None,
        typer.Option(
            envvar="ROCKETMQ_ACCESS_KEY",
            help="Who is asking.",
            show_default=False,
            show_envvar=True,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    secret_key: Annotated[
        str | None,
        typer.Option(
            envvar="ROCKETMQ_SECRET_KEY",
            help="What requests are signed with; safer in the environment than here.",
            show_default=False,
            show_envvar=True,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt lines.", rich_help_panel=_PANEL)] = False,
    tls_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Encrypt lines, and trust the authorities of this file.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="In front of topics and groups.", show_default=False, rich_help_panel=_PANEL)
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(min=0.001, metavar="SECONDS", help="How long to try to reach it.", rich_help_panel=_PANEL),
    ] = 5.0,
) -> "Connect":
    from steelyard.client.connect import Connect

    return Connect(
        ";".join(namesrv) if namesrv else None,
        access_key=access_key,
        secret_key=secret_key,
        tls=tls_ca if tls_ca is not None else tls,
        namespace=namespace,
        timeout_s=timeout,
    )


_SHARED = tuple(inspect.signature(_options).parameters.values())


def at_cluster(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that say where the cluster is; it gets a `Connect` as its first argument."""
    own = list(inspect.signature(verb).parameters.values())[1:]

    def run(**given: Any) -> None:
        where = {each.name: given.pop(each.name) for each in _SHARED}
        verb(_options(**where), **given)

    # All by name: typer calls it so, and the order is then that of the help.
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *_SHARED)]
    run.__dict__.update(__signature__=inspect.Signature(parameters))
    run.__name__, run.__doc__, run.__annotations__ = verb.__name__, verb.__doc__, {}
    return run
