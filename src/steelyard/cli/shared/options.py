"""Arguments and options that commands share: where the cluster is, output format, names, confirmation.

A command names what it needs as a parameter: an open `Admin`, the `ClientOptions` themselves or an `Output`.
`PROVIDERS` says of which options each is made (``--namesrv``, ``--output`` …), and is the only place that imports the
client, so that ``--help`` stays fast. The command line wins over ``--context`` (STEELYARD_CONTEXT), that over
NAMESRV_ADDR, that over the context in use (`steelyard context use`), and that over localhost:9876.

Names are completed from the cluster. A shell waits for that at every key, so completion gives up after a second and
prints no errors.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
from click.exceptions import Exit

from steelyard.cli.shared.contexts import ClusterContext, selected_context
from steelyard.cli.shared.output import Output, OutputFormat
from steelyard.cli.shared.parameters import Completer, Provider, argument, option
from steelyard.cli.shared.terminal import print_note, warn_on_stderr
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Permission, Queue
from steelyard.model.formatting import printable, short_names

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig
    from steelyard.client.sync.admin import Admin
    from steelyard.client.tls import Tls


_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The options that locate the cluster, as given; `config` checks and combines them."""

    PANEL: ClassVar = "Cluster"

    namesrv: Annotated[
        list[str] | None,
        option(
            metavar="ADDR",
            help="A name server, host:port; can be repeated, or several separated by ;. Also: NAMESRV_ADDR.",
            show_default="localhost:9876",
        ),
    ] = None
    context: Annotated[
        str | None,
        option(
            metavar="NAME",
            envvar="STEELYARD_CONTEXT",
            help="A cluster by the name that `steelyard context add` gave it.",
        ),
    ] = None
    access_key: Annotated[str | None, option(envvar="ROCKETMQ_ACCESS_KEY", help="Access key (ACL user name).")] = None
    secret_key: Annotated[
        str | None,
        option(
            envvar="ROCKETMQ_SECRET_KEY", help="Secret key that signs requests; safer in the environment than here."
        ),
    ] = None
    tls: Annotated[bool, option(help="Use TLS for connections.")] = False
    tls_ca: Annotated[
        str | None, option(metavar="FILE", help="Use TLS, and trust the certificate authorities in this file.")
    ] = None
    tls_no_verify: Annotated[bool, option(help="Use TLS without verifying certificates (self-signed servers).")] = False
    namespace: Annotated[str, option(help="Namespace of topics and groups.")] = ""
    timeout: Annotated[
        float | None,
        option(
            min=0.001,
            metavar="SECONDS",
            help="How long to wait for a connection. If it is given, a refused one is tried again meanwhile.",
            show_default=f"{_TIMEOUT_S:g}",
        ),
    ] = None

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
            timeout_s=_TIMEOUT_S if self.timeout is None else self.timeout,
            retry_refused=self.timeout is not None,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputOptions:
    PANEL: ClassVar = "Output"

    output: Annotated[OutputFormat, option("-o", help="Output format.")] = OutputFormat.TABLE
    as_json: Annotated[bool, option("--json", help="Short for --output jsonl: one object a line.")] = False


class _LineFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOutput:
    """How a command prints what has no end, or is one line: as text, or as JSON, one object a line."""

    PANEL: ClassVar = "Output"

    output: Annotated[_LineFormat, option("-o", help="Output format; json, as jsonl, is one object a line.")] = (
        _LineFormat.TEXT
    )
    json: Annotated[bool, option(help="Short for --output json.")] = False

    @property
    def is_json(self) -> bool:
        """Whether it is for programs."""
        return self.json or self.output is not _LineFormat.TEXT


def _new_admin(client: ClientOptions, timeout_s: float | None = None) -> "Admin":
    # Not opened here: opening connects to a name server, and a wrong argument would end with NoNameServer instead of a
    # usage error. A blocking client opens itself with its first call.
    from steelyard.client.sync.admin import Admin

    config = client.config()
    return Admin(config if timeout_s is None else replace(config, timeout_s=timeout_s))


def _provide_client(client: ClientOptions) -> ClientOptions:
    warn_on_stderr()
    return client


def _provide_admin(client: ClientOptions) -> "Admin":
    admin = _new_admin(_provide_client(client))
    click.get_current_context().call_on_close(admin.close)
    return admin


PROVIDERS = {
    "Admin": Provider(ClientOptions, _provide_admin),
    "ClientOptions": Provider(ClientOptions, _provide_client),
    "Output": Provider(_OutputOptions, lambda given: Output(OutputFormat.JSONL if given.as_json else given.output)),
}
"""How commands get what they name as a parameter, by its class."""


_COMPLETION_TIMEOUT_S = 1.0


def _client_options_of(params: Mapping[str, Any]) -> ClientOptions:
    """Return the cluster options that a partly parsed command line has."""
    given = {each.name: params[each.name] for each in fields(ClientOptions) if params.get(each.name) is not None}
    return ClientOptions(**given)


def _completion(names: "Callable[[Admin], Iterable[str]]") -> Completer:
    """Return a function that completes one of these names."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        logging.getLogger("steelyard").addHandler(logging.NullHandler())
        try:
            with _new_admin(_client_options_of(ctx.params), timeout_s=_COMPLETION_TIMEOUT_S) as admin:
                return [name for name in names(admin) if name.startswith(incomplete)]
        except SteelyardError:
            return []

    return complete


_complete_topics = _completion(lambda admin: (topic.name for topic in admin.topics.list()))
_complete_groups = _completion(lambda admin: admin.groups.names())
_complete_brokers = _completion(lambda admin: (broker.name for broker in admin.brokers.list()))


def _complete_members(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    group = ctx.params.get("group")
    if not isinstance(group, str):
        return []
    members = _completion(lambda admin: short_names(member.id for member in admin.groups.members(group)).values())
    return members(ctx, parameter, incomplete)


def _argument(metavar: str, help_text: str, names: Completer) -> Any:
    return argument(metavar=metavar, help=help_text, complete=names)


def _option(name: str, help_text: str, names: Completer, default: bool | str = False) -> Any:
    return option(name, help=help_text, show_default=default, complete=names)


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
        raise Exit(1)


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
