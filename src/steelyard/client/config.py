"""ClientConfig: the name servers, credentials, TLS and namespace of a client; one frozen value, checked once.

    Producer(ClientConfig("mq-1:9876;mq-2:9876", access_key="shop", secret_key="…", tls=True, namespace="eu"))

Without an address NAMESRV_ADDR of the environment counts, as for other clients, and then this machine.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError
from steelyard.net.addresses import parse_addresses
from steelyard.wire.signing import Credentials

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from steelyard.net.tls import Tls

NAMESRV_ENVIRONMENT = "NAMESRV_ADDR"
DEFAULT_NAMESRV = "localhost:9876"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach a cluster.

    >>> ClientConfig("mq-1:9876; mq-2:9876").name_servers
    ('mq-1:9876', 'mq-2:9876')
    >>> ClientConfig("mq-1:9876", access_key="shop")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: an access key is given without its secret; give secret_key too
    """

    namesrv: str | None = None
    """The name servers, with ``;`` between them."""
    access_key: str | None = field(default=None, kw_only=True)
    """Access key (ACL user name)."""
    secret_key: str | None = field(default=None, kw_only=True, repr=False)
    """The secret of the access key; every request is signed with it."""
    token: str | None = field(default=None, kw_only=True, repr=False)
    """A security token that goes with a temporary key."""
    tls: "bool | str | Path | ssl.SSLContext | Tls" = field(default=False, kw_only=True)
    """Whether to use TLS. True trusts what the system trusts; a path is a file of authorities to trust."""
    namespace: str = field(default="", kw_only=True)
    """A prefix of every topic and group on the servers, which users do not see."""
    name: str | None = field(default=None, kw_only=True)
    """A part of the client id, for people to recognise it by, and for strategies that have settings per member."""
    timeout_s: float = field(default=5.0, kw_only=True)
    """How long to try to connect to a name server at the start."""
    retry_refused: bool = field(default=True, kw_only=True)
    """Whether to try again during that time if all name servers refuse the connection, since one may be starting."""
    name_servers: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        given = self.namesrv or os.environ.get(NAMESRV_ENVIRONMENT, "").strip() or DEFAULT_NAMESRV
        if not isinstance(given, str):
            raise ConfigurationError(
                f"the address of the name servers is a {type(given).__name__}", next_step="write it as host:port"
            )
        bare = given.removeprefix("http://").removeprefix("https://").rstrip("/")
        object.__setattr__(self, "name_servers", parse_addresses(bare))
        if bool(self.access_key) != bool(self.secret_key):
            given_key, missing_key = ("an access key", "secret_key") if self.access_key else ("a secret", "access_key")
            without = "its secret" if self.access_key else "an access key"
            raise ConfigurationError(f"{given_key} is given without {without}", next_step=f"give {missing_key} too")
        if self.token and not self.access_key:
            raise ConfigurationError("a token is given without a key", next_step="give access_key and secret_key too")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise ConfigurationError(
                f"the namespace is {self.namespace!r}", next_step="use up to 64 letters, digits, - and _"
            )
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"the name is {self.name!r}", next_step="use up to 64 letters, digits, ., - and _")
        if not self.timeout_s > 0:
            raise ConfigurationError(f"the time to connect is {self.timeout_s} s", next_step="give more than 0")

    @classmethod
    def of(cls, namesrv: "NamesrvOrConfig") -> "ClientConfig":
        """Return a config as it is, and make one of an address or of nothing."""
        return namesrv if isinstance(namesrv, ClientConfig) else cls(namesrv)

    @property
    def credentials(self) -> Credentials | None:
        """The credentials that every request is signed with, if any."""
        if not self.access_key or not self.secret_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.token)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be written anywhere, the longest first: one may be part of another."""
        return tuple(sorted(filter(None, (self.access_key, self.secret_key, self.token)), key=len, reverse=True))

    def tls_context(self) -> "ssl.SSLContext | None":
        """Return the TLS context of connections; None without TLS."""
        if self.tls is False:
            return None
        # Here and not above: most connections are plain, and this import takes a while.
        from steelyard.net.tls import tls_context

        return tls_context(self.tls)

    def __str__(self) -> str:
        """Return the addresses."""
        return ";".join(self.name_servers)


NamesrvOrConfig = str | ClientConfig | None
"""The first argument of every client: an address, a config, or nothing."""


def signature_with_options(init: Callable[..., None], options: type) -> Signature:
    """Return the signature of ``init`` with each option in place of ``**settings``, as `help` and editors read it.

    >>> class Options:
    ...     def __init__(self, group: str, retries: int = 2) -> None: ...
    >>> class Client:
    ...     def __init__(self, group: str, **settings: int) -> None: ...
    >>> str(signature_with_options(Client.__init__, Options))
    '(group: str, *, retries: int = 2)'
    """
    _, *own = signature(init).parameters.values()
    own_parameters = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]
    taken = {each.name for each in own_parameters}
    options_only = [each for each in signature(options).parameters.values() if each.name not in taken]
    return Signature([*own_parameters, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in options_only)])
