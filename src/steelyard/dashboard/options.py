"""The options of the dashboard: one frozen value, checked once."""

import logging
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.errors import ConfigurationError
from steelyard.net.server import is_loopback, is_wildcard

DASHBOARD_PORT = 9877  # the default port, beside that of the name server

_MIN_TOKEN_LENGTH = 16
_LAST_PORT = 65_535
_TOKEN_FILE = "token"
_MAX_TOKEN_LENGTH = 1_000

_log = logging.getLogger("steelyard.dashboard")


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
        if not _is_token(self.token):
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


def _is_token(text: str) -> bool:
    """Say whether a token is long enough, and can be written in a header."""
    return len(text) >= _MIN_TOKEN_LENGTH and text.isascii() and text.isprintable()


def kept_token(folder: Path, fresh: str) -> str:
    """Return the token that is kept in a folder; if there is none, the fresh one, which is kept from now on.

    The file is for its owner alone. Without it the dashboard still works: its next start has another token.
    """
    file = folder / _TOKEN_FILE
    try:
        for each in (folder.parent, folder):
            each.mkdir(0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "r+", encoding="ascii", errors="replace") as kept:
            os.fchmod(handle, 0o600)
            found = kept.read(_MAX_TOKEN_LENGTH).strip()
            if _is_token(found):
                return found
            kept.seek(0)
            kept.truncate()
            kept.write(f"{fresh}\n")
    except OSError as error:
        _log.warning("the dashboard's token cannot be kept in %s: %s; its next start will have another", file, error)
    return fresh
