"""How long brokers take: one message is sent and waited for, to the topic that every broker has under its own name.

Nobody reads that topic, and its messages go with the rest of the broker's log when they are old.
"""

from steelyard.client.admin.asking import Asking
from steelyard.errors import ConfigurationError, error_for
from steelyard.net.clock import now_ms, steady_ns
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.headers.send import SendShort

__all__ = ["Probing"]

_GROUP = "TOOLS_PROBE"
_LARGEST = 4 * 1024 * 1024


class Probing(Asking):
    """What an administrator measures."""

    async def probe(self, broker: str, *, size: int = 128) -> float:
        """Send one message of so many bytes to a broker, and return the milliseconds until it was stored."""
        if not 0 < size <= _LARGEST:
            raise ConfigurationError(f"a message cannot have {size} bytes", next_step=f"give 1 to {_LARGEST}")
        (place,) = await self._chosen([broker], None)
        header = SendShort(_GROUP, broker, "TBW102", 1, 0, 0, now_ms(), 0, None, 0, False, None, False)
        began_ns = steady_ns()
        answer = await self._ask(place, RequestCode.SEND_MESSAGE_V2, header, b"x" * size)
        took_ms = (steady_ns() - began_ns) / 1e6
        if answer.code not in STORED:
            raise error_for(answer.code, answer.remark or "", server=broker)
        return took_ms
