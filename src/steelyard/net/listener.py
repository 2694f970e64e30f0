"""A port that lines come in by. It is ours from `bind` on, and lines are taken from `start` on."""

import asyncio
import errno
import socket

from steelyard.errors import CannotListen
from steelyard.net.switchboard import Switchboard

__all__ = ["Listener", "is_loopback", "is_wildcard"]

# Lines that may wait to be taken: when a broker comes back, all its clients come at once.
_BACKLOG = 1_024


class Listener:
    """A bound port. Make one with `bind`."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self.host, self.port = bound.getsockname()[:2]
        self._server: asyncio.Server | None = None

    @classmethod
    def bind(cls, host: str, port: int) -> "Listener":
        """Take a port, any free one if it is 0; say why not if it cannot be had."""
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, (address, _, *scope) = found[0]
            bound = socket.socket(family, kind, protocol)
        except (OSError, UnicodeError, OverflowError) as error:
            raise _refused(host, port, error) from None
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setblocking(False)
            bound.bind((address, port, *scope))
            # At once, and not when lines are taken: only then is the port surely ours alone.
            bound.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            bound.close()
            raise _refused(host, port, error) from None
        return cls(bound)

    @property
    def socket(self) -> socket.socket:
        """The port itself, for a server that takes lines in its own way."""
        return self._socket

    @property
    def address(self) -> str:
        """Host and port as clients write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def start(self, board: Switchboard) -> None:
        """Take lines, and give them to the switchboard."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(board.channel, sock=self._socket, backlog=_BACKLOG)

    def close(self) -> None:
        """Take no more lines; those that are open stay."""
        if self._server is not None:
            self._server.close()
        self._socket.close()


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = [str(each[4][0]) for each in found]
    return all(address.startswith("127.") or address == "::1" for address in addresses)


def is_wildcard(host: str) -> bool:
    """Say whether a host stands for all addresses of this machine: fit to listen at, and not to connect to.

    >>> is_wildcard("0.0.0.0"), is_wildcard("::"), is_wildcard("127.0.0.1")
    (True, True, False)
    """
    return host in ("", "0", "0.0.0.0", "::", "[::]")


def _refused(host: str, port: int, error: Exception) -> CannotListen:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return CannotListen(
            f"port {port} of {host} is in use", next_step="stop what listens there, or give another port"
        )
    if number in (errno.EACCES, errno.EPERM):
        return CannotListen(f"port {port} of {host} is not for us", next_step="give a port above 1023")
    why = getattr(error, "strerror", None) or str(error)
    return CannotListen(f"nobody can listen at {host}:{port} ({why.lower()})")
