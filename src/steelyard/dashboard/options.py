"""How the page is served and who may see it: one frozen value, checked once."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.errors import ConfigurationError
from steelyard.net.listener import is_loopback, is_wildcard

__all__ = ["PAGE_PORT", "PageOptions"]

PAGE_PORT = 9877
"""Where the page is if nobody says where: beside the name server's port."""

_SHORTEST_TOKEN = 16
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """Where the page is, and what it lets people do.

    >>> PageOptions(host="0.0.0.0")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: 0.0.0.0 can be reached by other machines; add --insecure-allow-remote if that \
is what you want, and put a proxy that encrypts in front of it
    """

    host: str = "127.0.0.1"
    """Where to listen."""
    port: int | None = None
    """None: the usual one, and another if that is taken. 0: any free one."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    """Who has it, may come in."""
    hosts: tuple[str, ...] = ()
    """Further names under which browsers may ask for it: those of a proxy, mostly."""
    read_only: bool = False
    """Whether nothing can be changed through it."""
    allow_remote: bool = False
    """Whether other machines may ask for it."""
    audit: Path | None = None
    """A file to which a line is added for every change, besides the log."""

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= _LAST_PORT:
            raise ConfigurationError(f"the page's port is {self.port}", next_step=f"give 0 to {_LAST_PORT}")
        if len(self.token) < _SHORTEST_TOKEN or not self.token.isascii() or not self.token.isprintable():
            raise ConfigurationError(
                "the page's token can be guessed", next_step=f"give at least {_SHORTEST_TOKEN} plain letters, or none"
            )
        if not self.allow_remote and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached by other machines",
                next_step="add --insecure-allow-remote if that is what you want, and put a proxy that encrypts in "
                "front of it",
            )

    @property
    def known_hosts(self) -> frozenset[str]:
        """The names under which it may be asked for, without ports."""
        own = () if is_wildcard(self.host) else (self.host,)
        return frozenset(each.lower() for each in ("127.0.0.1", "localhost", "::1", *own, *self.hosts))

    @property
    def is_open_to_this_machine_only(self) -> bool:
        """Whether nobody but programs of this machine can ask."""
        return not self.allow_remote
