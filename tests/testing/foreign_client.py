"""A client in another language, as far as a broker can tell: it shares nothing with ours but bytes."""

import json
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tests.waiting import LONGEST_S

_SEND, _PULL, _HEARTBEAT, _ROUTE = 10, 11, 34, 105


class ForeignClient:
    """A plain socket to one server."""

    def __init__(self, address: str, timeout_s: float = LONGEST_S) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a request, and return the header and the body of the answer."""
        self._opaque += 1
        header = json.dumps(
            {
                "code": code,
                "language": "RUBY",
                "version": 401,
                "opaque": self._opaque,
                "flag": 0,
                "extFields": dict(fields),
            }
        ).encode()
        self._socket.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        while True:
            size, header_size = struct.unpack(">ii", self._read(8))
            answer = json.loads(self._read(header_size & 0xFFFFFF))
            rest = self._read(size - 4 - (header_size & 0xFFFFFF))
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                return answer, rest

    def send(self, topic: str, body: bytes) -> dict[str, Any]:
        """Send a message to the first queue of a topic, and return the header of the answer."""
        fields = {
            "producerGroup": "foreign",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "1700000000000",
            "flag": "0",
            "properties": "",
            "reconsumeTimes": "0",
            "unitMode": "false",
        }
        return self.ask(_SEND, fields, body)[0]

    def heartbeat(self, client_id: str, group: str, topic: str) -> int:
        """Join a group, and return the code of the answer."""
        wanted = {"topic": topic, "subString": "*", "subVersion": 1, "tagsSet": [], "codeSet": []}
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [wanted],
        }
        beat = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
        return int(self.ask(_HEARTBEAT, {}, json.dumps(beat).encode())[0]["code"])

    def pull(self, group: str, topic: str, offset: int) -> dict[str, Any]:
        """Pull from the first queue of a topic, and return the header of the answer."""
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "0",
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "1",
            "expressionType": "TAG",
        }
        return self.ask(_PULL, fields)[0]

    def commit(self, group: str, topic: str, offset: int) -> int:
        """Commit an offset of the first queue of a topic, and return the code of the answer."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
        return int(self.ask(15, fields)[0]["code"])

    def route(self, topic: str) -> int:
        """Ask a name server for a topic, and return the code of the answer."""
        return int(self.ask(_ROUTE, {"topic": topic})[0]["code"])

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            more = self._socket.recv(size - len(read))
            if not more:
                raise ConnectionError("the line was closed")
            read += more
        return read
