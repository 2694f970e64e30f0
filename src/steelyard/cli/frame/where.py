"""Where the cluster is, and how to answer: the options that verbs share, declared once.

A verb takes a `Where`, an `Out` or both first and is wrapped by `at_cluster`; on the command line that is
``--namesrv``, ``--output`` and the others below. Nothing is looked at before the verb asks for it. What is said on the
command line comes first, then the context that it names (``--context``, STEELYARD_CONTEXT), then the environment's
NAMESRV_ADDR, then the context that was chosen for good (`steelyard context use`), and then this machine.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.frame.output import Format, Out

if TYPE_CHECKING:
    from steelyard.cli.frame.contexts import Context
    from steelyard.client.connect import Connect
    from steelyard.client.tls import Tls

__all__ = ["Where", "at_cluster", "where_of"]

_PANEL = "The cluster"
_ANSWER = "The answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What was given; `connect` checks it and makes a client's first argument of it."""

    namesrv: list[str] | None = None
    context: str | None = None
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
        from steelyard.errors import ConfigurationError

        if self.namesrv and not any(each.strip() for each in self.namesrv):
            # Mostly a variable that is not set: whoever counts next is not who was meant.
            raise ConfigurationError("--namesrv is empty", next_step="give host:port, or leave it away")
        known = self._known()
        return Connect(
            ";".join(self.namesrv) if self.namesrv else known.namesrv,
            access_key=self.access_key or known.access_key,
            secret_key=self.secret_key or known.secret_key,
            tls=self._tls(known),
            namespace=self.namespace or known.namespace,
            timeout_s=self.timeout,
        )

    def _known(self) -> "Context":
        """Return the context that counts; one with nothing in it if there is none."""
        from steelyard.cli.frame.contexts import Context, context_in_use

        # Who says where it is has said all: keys of another cluster are not shown to it.
        return Context() if self.namesrv and self.context is None else context_in_use(self.context)

    def _tls(self, known: "Context") -> "bool | str | Tls":
        ca = self.tls_ca or known.tls_ca
        if self.tls_no_verify or known.tls_no_verify:
            from steelyard.client.tls import Tls

            return Tls(ca=ca, verify=False)
        return self.tls or known.tls if ca is None else ca


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
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="STEELYARD_CONTEXT",
            help="A cluster by the name that `steelyard context add` gave it.",
            show_default=False,
            show_envvar=True,
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


def _answers(
    *,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="How to answer.", rich_help_panel=_ANSWER)
    ] = Format.TABLE,
    as_json: Annotated[
        bool, typer.Option("--json", help="Short for --output jsonl: one object a line.", rich_help_panel=_ANSWER)
    ] = False,
) -> None: ...


_SHARED = tuple(inspect.signature(_options).parameters.values())
_ANSWERS = tuple(inspect.signature(_answers).parameters.values())


def where_of(given: Mapping[str, Any], **instead: Any) -> Where:
    """Return where a command line says that the cluster is, as far as it says so."""
    told = {each.name: given[each.name] for each in _SHARED if given.get(each.name) is not None}
    return Where(**{**told, **instead})


def at_cluster(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options that say where the cluster is and how to answer; it gets them as its first arguments."""
    own = list(inspect.signature(verb).parameters.values())
    takes_where = bool(own) and own[0].annotation in (Where, "Where")
    place = int(takes_where)
    takes_out = len(own) > place and own[place].annotation in (Out, "Out")
    own = own[place + takes_out :]
    shared = (*(_ANSWERS if takes_out else ()), *(_SHARED if takes_where else ()))

    def run(**given: Any) -> None:
        first: list[object] = []
        if takes_where:
            from steelyard.cli.frame.logs import speak_on_stderr

            speak_on_stderr()
            first.append(Where(**{each.name: given.pop(each.name) for each in _SHARED}))
        if takes_out:
            output, as_json = given.pop("output"), given.pop("as_json")
            first.append(Out(Format.JSONL if as_json else output))
        verb(*first, **given)

    # All by name: typer calls it so, and the order is then that of the help.
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
    run.__dict__.update(verb.__dict__, __signature__=inspect.Signature(parameters))
    run.__name__, run.__doc__, run.__annotations__ = verb.__name__, verb.__doc__, {}
    return run
