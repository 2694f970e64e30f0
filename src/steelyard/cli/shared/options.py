"""Arguments and options that commands share: where the cluster is, output format, names, confirmation.

A command names what it needs as its first parameters: an open `Admin`, the `ClientOptions` themselves or an `Output`.
`with_shared_options`, which is applied to every command (cli/shared/commands.py), adds the matching options
(``--namesrv``, ``--output`` …) and is the only place that imports the client, so that ``--help`` stays fast. The
command line wins over ``--context`` (STEELYARD_CONTEXT), that over NAMESRV_ADDR, that over the context in use
(`steelyard context use`), and that over localhost:9876.

Names are completed from the cluster. A shell waits for that at every key, so completion gives up after a second and
prints no errors.
"""

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.shared.contexts import ClusterContext, selected_context
from steelyard.cli.shared.output import Output, OutputFormat
from steelyard.cli.shared.terminal import print_note, warn_on_stderr
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Permission, Queue
from steelyard.model.formatting import printable, short_names

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig
    from steelyard.client.sync.admin import Admin
    from steelyard.client.tls import Tls

option = partial(typer.Option, show_default=False)
"""An option whose help shows no default: it has none, it is a flag, or the text says it."""
argument = partial(typer.Argument, show_default=False)


def _cluster_option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Cluster", **{"show_default": False, **settings})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options that locate the cluster, as given; `config` checks and combines them."""

    namesrv: Annotated[
        list[str] | None,
        _cluster_option(
            metavar="ADDR",
            help="A name server, host:port; can be repeated, or several separated by ;. Also: NAMESRV_ADDR.",
            show_default="localhost:9876",
        ),
    ] = None
    context: Annotated[
        str | None,
        _cluster_option(
            metavar="NAME",
            envvar="STEELYARD_CONTEXT",
            help="A cluster by the name that `steelyard context add` gave it.",
            show_envvar=True,
        ),
    ] = None
    access_key: Annotated[
        str | None,
        _cluster_option(envvar="ROCKETMQ_ACCESS_KEY", help="Access key (ACL user name).", show_envvar=True),
    ] = None
    secret_key: Annotated[
        str | None,
        _cluster_option(
            envvar="ROCKETMQ_SECRET_KEY",
            help="Secret key that signs requests; safer in the environment than here.",
            show_envvar=True,
        ),
    ] = None
    tls: Annotated[bool, _cluster_option("--tls", help="Use TLS for connections.")] = False
    tls_ca: Annotated[
        str | None,
        _cluster_option(metavar="FILE", help="Use TLS, and trust the certificate authorities in this file."),
    ] = None
    tls_no_verify: Annotated[
        bool,
        _cluster_option("--tls-no-verify", help="Use TLS without verifying certificates (self-signed servers)."),
    ] = False
    namespace: Annotated[str, _cluster_option(help="Namespace of topics and groups.")] = ""
    timeout: Annotated[
        float,
        _cluster_option(min=0.001, metavar="SECONDS", help="How long to wait for a connection.", show_default=True),
    ] = 5.0

    def config(self) -> "ClientConfig":
        """Return the client configuration: options, then the selected context."""
        from steelyard.client.config import ClientConfig

        if self.namesrv and not any(each.strip() for each in self.namesrv):
            # Mostly an unset shell variable: falling back to another cluster would be a surprise.
            raise ConfigurationError("--namesrv is empty", next_step="give host:port, or leave it out")
        context = self._selected_context()
        return ClientConfig(
            ";".join(self.namesrv) if self.namesrv else context.namesrv,
            access_key=self.access_key or context.access_key,
            secret_key=self.secret_key or context.secret_key,
            tls=self._tls_setting(context),
            namespace=self.namespace or context.namespace,
            timeout_s=self.timeout,
        )

    def _selected_context(self) -> ClusterContext:
        """Return the selected context; an empty one if there is none."""
        # --namesrv alone uses no context: the keys of one cluster must not be sent to another.
        return ClusterContext() if self.namesrv and self.context is None else selected_context(self.context)

    def _tls_setting(self, context: ClusterContext) -> "bool | str | Tls":
        ca = self.tls_ca or context.tls_ca
        if self.tls_no_verify or context.tls_no_verify:
            from steelyard.client.tls import Tls

            return Tls(ca=ca, verify=False)
        return self.tls or context.tls if ca is None else ca


def _declare_output_options(
    *,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="Output format.", rich_help_panel="Output")
    ] = OutputFormat.TABLE,
    as_json: Annotated[
        bool, option("--json", help="Short for --output jsonl: one object a line.", rich_help_panel="Output")
    ] = False,
) -> None: ...


_CLUSTER_PARAMETERS = tuple(inspect.signature(ClientOptions).parameters.values())
_OUTPUT_PARAMETERS = tuple(inspect.signature(_declare_output_options).parameters.values())


def _client_options_of(params: Mapping[str, Any], **overrides: Any) -> ClientOptions:
    """Return the cluster options that a partly parsed command line has."""
    given = {each.name: params[each.name] for each in _CLUSTER_PARAMETERS if params.get(each.name) is not None}
    return ClientOptions(**{**given, **overrides})


def _new_admin(client: ClientOptions) -> "Admin":
    # Not opened here: opening connects to a name server, and a wrong argument would end with NoNameServer instead of a
    # usage error. A blocking client opens itself with its first call.
    from steelyard.client.sync.admin import Admin

    return Admin(client.config())


_INJECTED = ("Admin", "ClientOptions", "Output")


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Pass a command the `Admin`, `ClientOptions` and `Output` that its first parameters name, with their options.

    A further parameter whose type is a dataclass stands for the options that its fields declare.
    """
    own = list(inspect.signature(command).parameters.values())
    # An annotation is a class, or a name in quotes where importing the class would be slow.
    names = [getattr(each.annotation, "__name__", each.annotation) for each in own]
    injected = list(takewhile(_INJECTED.__contains__, names))
    if not injected:
        return command
    uses_cluster, uses_output = set(injected) != {"Output"}, "Output" in injected
    shared = (*(_OUTPUT_PARAMETERS if uses_output else ()), *(_CLUSTER_PARAMETERS if uses_cluster else ()))
    own = own[len(injected) :]
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        shared_values = {each.name: given.pop(each.name) for each in shared}
        values: dict[str, object] = {}
        with ExitStack() as stack:
            if uses_output:
                output, as_json = shared_values.pop("output"), shared_values.pop("as_json")
                values["Output"] = Output(OutputFormat.JSONL if as_json else output)
            if uses_cluster:
                warn_on_stderr()
                values["ClientOptions"] = client = ClientOptions(**shared_values)
                if "Admin" in injected:
                    values["Admin"] = admin = _new_admin(client)
                    stack.callback(admin.close)
            command(*(values[name] for name in injected), **given)

    # Keyword-only: typer passes values by name, and the help lists a command's own options before the shared ones.
    declared = [
        part
        for each in (*own, *shared)
        for part in (inspect.signature(groups[each.name]).parameters.values() if each.name in groups else (each,))
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in declared]
    run.__dict__.update(command.__dict__, __signature__=inspect.Signature(parameters))
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
    return run


_COMPLETION_TIMEOUT_S = 1.0


def _completion(names: "Callable[[Admin], Iterable[str]]") -> Callable[[typer.Context, str], list[str]]:
    """Return a function that completes one of these names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        logging.getLogger("steelyard").addHandler(logging.NullHandler())
        try:
            with _new_admin(_client_options_of(ctx.params, timeout=_COMPLETION_TIMEOUT_S)) as admin:
                return [name for name in names(admin) if name.startswith(incomplete)]
        except SteelyardError:
            return []

    return complete


_complete_topics = _completion(lambda admin: (topic.name for topic in admin.topics.list()))
_complete_groups = _completion(lambda admin: admin.groups.names())
_complete_brokers = _completion(lambda admin: (broker.name for broker in admin.brokers.list()))


def _complete_members(ctx: typer.Context, incomplete: str) -> list[str]:
    group = ctx.params.get("group")
    if not isinstance(group, str):
        return []
    members = _completion(lambda admin: short_names(member.id for member in admin.groups.members(group)).values())
    return members(ctx, incomplete)


def _argument(metavar: str, help_text: str, names: Callable[..., list[str]]) -> Any:
    return argument(metavar=metavar, help=help_text, autocompletion=names)


def _option(name: str, help_text: str, names: Callable[..., list[str]], default: bool | str = False) -> Any:
    return typer.Option(name, help=help_text, show_default=default, autocompletion=names)


TopicArgument = Annotated[str, _argument("TOPIC", "The topic's name.", _complete_topics)]
TopicsArgument = Annotated[list[str], _argument("TOPIC…", "Topics' names.", _complete_topics)]
OptionalTopicArgument = Annotated[str | None, _argument("[TOPIC]", "The topic's name.", _complete_topics)]
GroupArgument = Annotated[str, _argument("GROUP", "The group's name.", _complete_groups)]
OptionalGroupArgument = Annotated[str | None, _argument("[GROUP]", "The group's name.", _complete_groups)]
BrokerArgument = Annotated[str, _argument("BROKER", "The broker's name.", _complete_brokers)]
MemberArgument = Annotated[str, _argument("MEMBER", "The member's id, or its short name.", _complete_members)]
TopicOption = Annotated[str | None, _option("--topic", "Only this topic.", _complete_topics)]
TopicsOption = Annotated[
    list[str] | None, _option("--topic", "Only this topic; can be repeated.", _complete_topics, "all")
]
RequiredGroupOption = Annotated[str, _option("--group", "The group's name.", _complete_groups)]
GroupOption = Annotated[str | None, _option("--group", "Only this group.", _complete_groups)]
BrokerOption = Annotated[str | None, _option("--broker", "Only this broker.", _complete_brokers)]
BrokersOption = Annotated[
    list[str] | None, _option("--broker", "Only on this broker; can be repeated.", _complete_brokers, "all")
]
ClusterOption = Annotated[str | None, option("--cluster", metavar="NAME", help="Only this cluster.")]

YesOption = Annotated[bool, option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, option("--dry-run", help="Show what would be done; change nothing.")]


def confirm(consequence: str, yes: bool) -> None:
    """Ask a person to confirm ``consequence``, a sentence; without a terminal ``--yes`` is required.

    Without a terminal no answer is possible, and a job that hangs is worse than one that fails.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(consequence, next_step="if that is wanted, add --yes")
    # On stderr: stdout is for results, and may be a file.
    sys.stderr.write(f"{printable(consequence)}. Continue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        print_note("nothing was changed")
        raise typer.Exit(1)


TOKEN_VARIABLE = "STEELYARD_DASHBOARD_TOKEN"


class TopicPermission(StrEnum):
    """What clients may do with a topic, as it is typed and shown.

    >>> TopicPermission.from_permission(Permission(6)), TopicPermission.READ.permission
    (<TopicPermission.READ_WRITE: 'read-write'>, <Permission.READ: 4>)
    """

    READ_WRITE = "read-write"
    READ = "read"
    WRITE = "write"
    NONE = "nothing"

    @property
    def permission(self) -> Permission:
        """The permission bits of RocketMQ."""
        return _PERMISSION_BITS[self]

    @classmethod
    def from_permission(cls, permission: Permission) -> "TopicPermission":
        """Return what permission bits allow clients; other bits (inherit, priority) are ignored."""
        wanted = permission & (Permission.READ | Permission.WRITE)
        return next(each for each, bits in _PERMISSION_BITS.items() if bits == wanted)

    @classmethod
    def parse(cls, text: str) -> "TopicPermission":
        """Return the permission of a word.

        >>> TopicPermission.parse("everything")
        Traceback (most recent call last):
        steelyard.errors.ConfigurationError: 'everything' is no permission; give read-write, read, write or nothing
        """
        try:
            return cls(text)
        except ValueError:
            raise ConfigurationError(
                f"{text!r} is no permission", next_step="give read-write, read, write or nothing"
            ) from None


_PERMISSION_BITS = {
    TopicPermission.READ_WRITE: Permission.READ | Permission.WRITE,
    TopicPermission.READ: Permission.READ,
    TopicPermission.WRITE: Permission.WRITE,
    TopicPermission.NONE: Permission(0),
}


_MAX_DIGITS = 19
_MESSAGE_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{34}|[0-9A-Fa-f]{56}")


def parse_message_id(text: str) -> str:
    """Return a message id in upper case, as servers know it; raise if it cannot be one.

    >>> parse_message_id("c0a8010200002a9f0000000000000400")
    'C0A8010200002A9F0000000000000400'
    """
    if not _MESSAGE_ID.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is no message id",
            next_step="it has 32, 34 or 56 hexadecimal digits; to search by key: steelyard message find TOPIC KEY",
        )
    return text.upper()


def parse_queue(topic: str, text: str) -> Queue:
    """Parse a queue of a topic, written as BROKER:ID.

    >>> parse_queue("orders", "broker-0:3")
    Queue(topic='orders', broker='broker-0', queue_id=3)
    """
    broker, _, number = text.rpartition(":")
    if not broker or not _is_offset(number):
        raise ConfigurationError(f"{text!r} is no queue", next_step="write it as BROKER:ID, such as broker-0:3")
    return Queue(topic, broker, int(number))


def parse_pairs(pairs: Iterable[str] | None, what: str, *, empty: bool = True) -> dict[str, str]:
    """Parse NAME=VALUE pairs; ``what`` names one in errors, and ``empty`` allows a value that is empty.

    >>> parse_pairs(["fileReservedTime=48", "note=a=b"], "setting")
    {'fileReservedTime': '48', 'note': 'a=b'}
    """
    found: dict[str, str] = {}
    for each in pairs or ():
        name, sign, value = each.partition("=")
        if not name.strip() or not sign or not (value or empty):
            raise ConfigurationError(f"{each!r} is no {what}", next_step="write it as name=value")
        found[name.strip()] = value
    return found


def parse_place(topic: str, text: str) -> tuple[Queue, int]:
    """Parse the place of a message, written as BROKER:QUEUE:OFFSET.

    >>> parse_place("orders", "broker-0:3:41")
    (Queue(topic='orders', broker='broker-0', queue_id=3), 41)
    """
    queue, _, offset = text.rpartition(":")
    broker, _, number = queue.rpartition(":")
    if not broker or not _is_offset(number) or not _is_offset(offset):
        raise ConfigurationError(
            f"{text!r} is no place of a message", next_step="write it as BROKER:QUEUE:OFFSET, such as broker-0:3:41"
        )
    return Queue(topic, broker, int(number)), int(offset)


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
