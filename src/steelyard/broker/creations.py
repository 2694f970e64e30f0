"""How fast one connection may make groups and topics.

Each new name is kept, saved, and told to name servers, and whoever reaches the port can make them by a heartbeat or a
send. A connection has a store of them, which is more than any application needs to start with and which fills up again
slowly; beyond it a request that would make one is refused as too busy, and a client tries again later. What is there
already is served as ever. What the broker makes by itself, or at its start, is not counted.
"""

from steelyard.broker.options import BrokerOptions
from steelyard.broker.refusals import refusal
from steelyard.wire.codes import ResponseCode
from steelyard.wire.peers import Peer

__all__ = ["Creations"]


class Creations:
    """What each connection may still make. ``maker`` is whose request is at hand, None if it is nobody's."""

    def __init__(self, options: BrokerOptions) -> None:
        self._burst, self._per_s = options.new_names, options.new_names_per_s
        self.maker: Peer | None = None
        self._left: dict[int, tuple[int, int]] = {}
        """By connection, a thousand for each name: what was left, and when. Without an entry it is all of them."""

    def count(self, now_ms: int) -> None:
        """Count one name that is about to be made, or refuse the request that makes it."""
        if self.maker is None:
            return
        number, most = self.maker.number, self._burst * 1000
        left, since_ms = self._left.get(number, (most, now_ms))
        left = min(most, left + max(0, now_ms - since_ms) * self._per_s)
        if left < 1000:
            raise refusal(
                ResponseCode.SYSTEM_BUSY,
                f"[TOO MANY NEW NAMES]this connection made {self._burst} groups and topics in a short time, and may "
                f"make {self._per_s} more each second: try again later, or use the same names again",
            )
        self._left[number] = left - 1000, now_ms

    def closed(self, peer: Peer) -> None:
        """Forget a connection."""
        self._left.pop(peer.number, None)
