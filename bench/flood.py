"""A sender that keeps so many messages on their way over one line, and counts what was answered.

All frames are made beforehand: the broker is measured, not the sender.
"""

import socket
from collections.abc import Sequence
from time import perf_counter

from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.send import SendMessageV2

IN_FLIGHT = 64
_BODY = b"x" * 1024
_PROPERTIES = "UNIQ_KEY\x017F000001788F4E0E2F2A4C7DDF81%04X\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def send_frame(topic: str, queue_id: int, opaque: int) -> bytes:
    """Return the frame of one send."""
    properties = _PROPERTIES % (opaque & 0xFFFF)
    header = SendMessageV2("flood", topic, "TBW102", 4, queue_id, 0, 1_794_774_517_634, 0, properties, 0, False)
    return encode_frame(Command(RequestCode.SEND_MESSAGE_V2, header, _BODY, opaque=opaque))


class Flood:
    """One connection to a broker, and frames that are sent again and again, a handful at a time."""

    def __init__(self, port: int, topic: str, queue_ids: Sequence[int]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._splitter = FrameDecoder()
        frames = [send_frame(topic, queue_id, opaque) for opaque, queue_id in enumerate(queue_ids)]
        self._handfuls = [b"".join(frames[at : at + IN_FLIGHT]) for at in range(0, len(frames), IN_FLIGHT)]
        self._counts = [len(frames[at : at + IN_FLIGHT]) for at in range(0, len(frames), IN_FLIGHT)]

    def once(self) -> int:
        """Send every frame once, and return how many there were; each must be answered with "stored"."""
        for handful, count in zip(self._handfuls, self._counts, strict=True):
            self._socket.sendall(handful)
            self._take(count)
        return sum(self._counts)

    def rate(self, seconds: float) -> float:
        """Send for so long, and return how many were answered a second."""
        started, sent = perf_counter(), 0
        while (lasted := perf_counter() - started) < seconds:
            sent += self.once()
        return sent / lasted

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _take(self, count: int) -> None:
        while count > 0:
            received = self._socket.recv(1 << 16)
            if not received:
                raise RuntimeError("the broker closed the connection of a sender")
            for answer in self._splitter.feed(received):
                if answer.code:
                    raise RuntimeError(f"a send is answered {answer.code}: {answer.remark}")
                count -= 1
