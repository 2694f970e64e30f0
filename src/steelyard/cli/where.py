"""Where the cluster is: the options that every verb has which talks to one, declared once.

A verb takes a `Where` first and is wrapped by `at_cluster`; on the command line that is ``--namesrv`` and the others
below. Nothing is looked at before the verb asks for it. Without ``--namesrv`` the environment's NAMESRV_ADDR counts,
and then this machine.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from steelyard.client.connect import Connect
    from steelyard.client.tls import Tls

__all__ = ["Where", "at_cluster"]

_PANEL = "The cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What was given; `connect` checks it and makes a client's first argument of it."""

    namesrv: list[str] | None = None
    access_key: str | None = None
    secret_key: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_no_verify: bool = False
    namespace: str = ""
    timeout: float = 5.0

    def connect(self) -> "Connect":
        """Return it as clients want it."""
        from steelyard.client.connect import Connect

        return Connect(
            ";".join(self.namesrv) if self.namesrv else None,
            access_key=self.access_key,
            secret_key=self.secret_key,
            tls=self._tls(),
            namespace=self.namespace,
            timeout_s=self.timeout,
        )

    def _tls(self) -> "bool | str | Tls":
        if self.tls_no_verify:
            from steelyard.client.tls import Tls

            return Tls(ca=self.tls_ca, verify=False)
        return self.tls if self.tls_ca is None else self.tls_ca


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
    tls_no_verify: Annotated[
        bool,
        typer.Option(
            "--tls-no-verify",
            help="Encrypt lines, and believe anybody: for servers whose certificate is of their own making.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    namespace: Annotated[
        str, typer.Option(help="In front of topics and groups.", show_default=False, rich_help_panel=_PANEL)
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(min=0.001, metavar="SECONDS", help="How long to try to reach it.", rich_help_panel=_PANEL),
    ] = 5.0,
) -> None: ...


_SHARED = tuple(inspect.signature(_options).parameters.values())


def at_cluster(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that say where the cluster is; it gets them as its first argument."""
    own = list(inspect.signature(verb).parameters.values())[1:]

    def run(**given: Any) -> None:
        where = Where(**{each.name: given.pop(each.name) for each in _SHARED})
        verb(where, **given)

    # All by name: typer calls it so, and the order is then that of the help.
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *_SHARED)]
    run.__dict__.update(__signature__=inspect.Signature(parameters))
    run.__name__, run.__doc__, run.__annotations__ = verb.__name__, verb.__doc__, {}
    return run
