"""Where a cluster is and how to get in: one frozen value for every kind of client, checked once.

    Producer("localhost:9876")                                   # most of the time an address is enough
    Producer(Connect("mq-1:9876;mq-2:9876", access_key="shop", secret_key="…", tls=True, namespace="eu"))

Without an address the environment's NAMESRV_ADDR counts, as for other clients, and then this machine.
"""

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError
from steelyard.net.addresses import parse_addresses
from steelyard.wire.signing import Credentials

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from steelyard.net.tls import Tls

__all__ = ["DEFAULT_ADDRESS", "ENVIRONMENT", "Connect", "Where"]

ENVIRONMENT = "NAMESRV_ADDR"
DEFAULT_ADDRESS = "localhost:9876"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Connect:
    """How to reach a cluster.

    >>> Connect("mq-1:9876; mq-2:9876").name_servers
    ('mq-1:9876', 'mq-2:9876')
    >>> Connect("mq-1:9876", access_key="shop")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: an access key is given without its secret; give secret_key too
    """

    namesrv: str | None = None
    """The name servers, with ``;`` between them."""
    access_key: str | None = field(default=None, kw_only=True)
    """Who is asking, where servers want to know."""
    secret_key: str | None = field(default=None, kw_only=True, repr=False)
    """What every request is signed with; it goes with the access key."""
    token: str | None = field(default=None, kw_only=True, repr=False)
    """A security token that goes with a temporary key."""
    tls: "bool | str | Path | ssl.SSLContext | Tls" = field(default=False, kw_only=True)
    """Whether lines are encrypted. True trusts what the system trusts; a path is a file of authorities to trust."""
    namespace: str = field(default="", kw_only=True)
    """Put in front of every topic and group, and taken away from what users see."""
    name: str | None = field(default=None, kw_only=True)
    """A part of the client's id: people recognise it by that, and strategies are told of it by that."""
    timeout_s: float = field(default=5.0, kw_only=True)
    """How long to try to reach a name server at the start."""
    name_servers: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        given = self.namesrv or os.environ.get(ENVIRONMENT, "").strip() or DEFAULT_ADDRESS
        if not isinstance(given, str):
            raise ConfigurationError(
                f"the address of the name servers is a {type(given).__name__}", next_step="write it as host:port"
            )
        bare = given.removeprefix("http://").removeprefix("https://").rstrip("/")
        object.__setattr__(self, "name_servers", parse_addresses(bare))
        if bool(self.access_key) != bool(self.secret_key):
            here, other = ("an access key", "secret_key") if self.access_key else ("a secret", "access_key")
            without = "its secret" if self.access_key else "an access key"
            raise ConfigurationError(f"{here} is given without {without}", next_step=f"give {other} too")
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
    def of(cls, where: "Where") -> "Connect":
        """Return what was given, if it is one; an address, or nothing, becomes one."""
        return where if isinstance(where, Connect) else cls(where)

    @property
    def credentials(self) -> Credentials | None:
        """The key that every request is signed with, if there is one."""
        if not self.access_key or not self.secret_key:
            return None
        return Credentials(self.access_key, self.secret_key, self.token)

    def tls_context(self) -> "ssl.SSLContext | None":
        """Make what lines are encrypted with; None if they are not."""
        if self.tls is False:
            return None
        # Here and not above: most lines are plain, and this takes a while to load.
        from steelyard.net.tls import tls_context

        return tls_context(self.tls)

    def __str__(self) -> str:
        """Return the addresses."""
        return ";".join(self.name_servers)


Where = str | Connect | None
"""What every client takes as its first argument: an address, all of it, or nothing."""
