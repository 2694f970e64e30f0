"""A port that lines come in by. It is ours from `bind` on, and lines are taken from `start` on.

Lines are accepted here and not by the loop's server: asyncio's forgets a line, and leaves it open, if it is closed
between accepting and opening it.
"""

import asyncio
import errno
import logging
import socket
import sys

from steelyard.errors import CannotListen
from steelyard.net.switchboard import Switchboard

__all__ = ["Listener", "is_loopback", "is_wildcard", "reserve_port"]

# Lines that may wait to be taken: when a broker comes back, all its clients come at once.
_BACKLOG = 1_024
# Before the next attempt to take a line, where there was no file descriptor or no memory for one.
_PAUSE_S = 1.0

_log = logging.getLogger("steelyard.net")


class Listener:
    """A bound port. Make one with `bind`."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self.host, self.port = bound.getsockname()[:2]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = set[asyncio.Task[None]]()

    @classmethod
    def bind(cls, host: str, port: int) -> "Listener":
        """Take a port, any free one if it is 0; say why not if it cannot be had."""
        bound = _bound(host, port)
        try:
            # At once, and not when lines are taken: only then is the port surely ours alone.
            bound.listen(_BACKLOG)
        except OSError as error:
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

    def start(self, board: Switchboard) -> None:
        """Take lines, and give them to the switchboard."""
        self._loop = asyncio.get_running_loop()
        self._go_on(board)

    def _accept(self, board: Switchboard, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(_BACKLOG):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.warning("%s cannot take a line (%s); it tries again in %g s", self.address, error, _PAUSE_S)
                loop.remove_reader(self._socket)
                loop.call_later(_PAUSE_S, self._go_on, board)
                return
            opening = loop.create_task(_open(board, loop, accepted))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _go_on(self, board: Switchboard) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket, self._accept, board, self._loop)

    def close(self) -> None:
        """Take no more lines; those that are open stay."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket)
        self._socket.close()

    async def closed(self) -> None:
        """Wait until the switchboard knows all lines that were taken."""
        while self._opening:
            await asyncio.wait(self._opening)


async def _open(board: Switchboard, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
    try:
        await loop.connect_accepted_socket(board.channel, accepted)
    except OSError as error:  # it is gone again
        accepted.close()
        _log.debug("a line was not opened: %s", error)


def reserve_port(host: str, port: int) -> socket.socket | None:
    """Keep a port, any free one if it is 0, while no server listens there; None: not on this system.

    A socket that is bound and does not listen refuses connections. Linux lets a listener have the same port beside it,
    and gives the port to nobody who asks for any free one: a server can stop and come back at its address.
    """
    return _bound(host, port) if sys.platform == "linux" else None


def _bound(host: str, port: int) -> socket.socket:
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
    except (OSError, OverflowError) as error:
        bound.close()
        raise _refused(host, port, error) from None
    return bound


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
