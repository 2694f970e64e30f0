"""The options of the dashboard: one frozen value, checked once."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.errors import ConfigurationError
from steelyard.net.server import is_loopback, is_wildcard

DASHBOARD_PORT = 9877  # the default port, beside that of the name server

_MIN_TOKEN_LENGTH = 16
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """Where the dashboard listens, and what it allows.

    >>> DashboardOptions(host="0.0.0.0")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: 0.0.0.0 can be reached by other machines; add --insecure-allow-remote if that \
is what you want, and put a proxy that encrypts in front of it
    """

    host: str = "127.0.0.1"  # the address to listen on
    port: int | None = None  # None: the default one, or any free one if that is taken. 0: any free one.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)  # the secret that signs in
    extra_hosts: tuple[str, ...] = ()  # further host names that browsers may use: mostly those of a proxy
    read_only: bool = False  # whether all changes are rejected
    allow_remote: bool = False  # whether other machines may connect
    audit_file: Path | None = None  # a file that gets a line for every change, besides the log

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= _LAST_PORT:
            raise ConfigurationError(f"the dashboard's port is {self.port}", next_step=f"give 0 to {_LAST_PORT}")
        if len(self.token) < _MIN_TOKEN_LENGTH or not self.token.isascii() or not self.token.isprintable():
            raise ConfigurationError(
                "the dashboard's token can be guessed",
                next_step=f"give at least {_MIN_TOKEN_LENGTH} plain letters, or none",
            )
        if not self.allow_remote and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached by other machines",
                next_step="add --insecure-allow-remote if that is what you want, and put a proxy that encrypts in "
                "front of it",
            )

    @property
    def known_hosts(self) -> frozenset[str]:
        """The host names that it answers to, without ports."""
        own = () if is_wildcard(self.host) else (self.host,)
        return frozenset(each.lower() for each in ("127.0.0.1", "localhost", "::1", *own, *self.extra_hosts))

    @property
    def is_loopback_only(self) -> bool:
        """Whether only programs of this machine can connect."""
        return not self.allow_remote
