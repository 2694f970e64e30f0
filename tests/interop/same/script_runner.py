"""A script is run: its requests go out one after the other, and what comes back is noted by step."""

import itertools
import select
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from string import Template

import msgspec

from steelyard.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.message_ids import parse_offset_id
from tests.interop.backends import Cluster
from tests.interop.same.answer_views import View, view_of
from tests.interop.same.steps import BROKER, Script, Step

_WAIT_SECONDS = 20
_SILENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
SILENCE: View = {"code": "no answer"}
CLOSED: View = {"code": "the connection was closed"}

# What members of a group answer when the broker passes a question on to them.
_MEMBER_SAYS: Mapping[int, bytes] = {
    221: b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:5}}',
    307: b'{"mqPopTable":{},"mqTable":{},"properties":{"a":"b"},"statusTable":{},"subscriptionSet":[],'
    b'"userConsumerInfo":{}}',
    309: b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}',
}


class _ScriptConnection:
    """One connection, what was answered on it, and what was asked on it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_WAIT_SECONDS)
        self.splitter = FrameDecoder()
        self.answers: dict[int, Command] = {}
        self.asked: list[Command] = []
        self.is_open = True

    def close(self) -> None:
        self.socket.close()

    def send(self, command: Command) -> None:
        self.socket.sendall(encode_frame(command))

    def read(self) -> None:
        try:
            arrived = self.socket.recv(1 << 18)
        except ConnectionError:
            arrived = b""
        if not arrived:
            self.is_open = False
            return
        for command in self.splitter.feed(arrived):
            if command.is_response:
                self.answers[command.opaque] = command
                continue
            self.asked.append(command)
            if not command.is_oneway:
                body = _MEMBER_SAYS.get(command.code, b"")
                self.send(Command(0, {}, body, command.opaque, RESPONSE_FLAG, version=513, language="JAVA"))


class _Run:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[tuple[str, str], _ScriptConnection] = {}
        self._opaques = itertools.count(1)
        self._names = {
            "broker": cluster.broker,
            "names": cluster.name_server,
            "port": cluster.broker.rpartition(":")[2],
        }

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def do(self, step: Step) -> View:
        """Put a step, again if need be, and return what is seen of the answer."""
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            self._names["now"] = str(int(time.time() * 1000))
            connection = self._connection(step.to, step.connection)
            answer = self._ask(connection, step)
            if answer is None:
                view = dict(SILENCE if connection.is_open else CLOSED)
                if not connection.is_open:
                    del self._connections[step.to, step.connection]
                    connection.close()
            else:
                view = view_of(step.code, answer)
            if _is_settled(step, view) or time.monotonic() > end:
                break
            time.sleep(_PAUSE_SECONDS)
        if answer is not None:
            self._keep(step, answer)
        if step.expects is not None:
            self._expect(step.expects, view)
        return view

    def _connection(self, to: str, name: str) -> _ScriptConnection:
        connection = self._connections.get((to, name))
        if connection is None:
            connection = _ScriptConnection(self._cluster.broker if to == BROKER else self._cluster.name_server)
            self._connections[to, name] = connection
        return connection

    def _ask(self, connection: _ScriptConnection, step: Step) -> Command | None:
        opaque = next(self._opaques)
        fields = {name: self._text(value) for name, value in step.fields.items()}
        body = step.body
        if not isinstance(body, bytes):
            body = self._text(msgspec.json.encode(body).decode()).encode()
        for each in self._connections.values():
            each.asked.clear()
        connection.send(
            Command(
                step.code,
                fields,
                body,
                opaque,
                ONEWAY_FLAG if step.oneway else 0,
                version=step.version,
                language=step.language,
                header_type=step.header_type,
            )
        )
        end = time.monotonic() + (_SILENCE_SECONDS if step.silent or step.oneway else _WAIT_SECONDS)
        while opaque not in connection.answers and connection.is_open and time.monotonic() < end:
            self._read(0.1)
        return connection.answers.pop(opaque, None)

    def _read(self, seconds: float) -> None:
        sockets = {connection.socket: connection for connection in self._connections.values() if connection.is_open}
        for ready in select.select(list(sockets), [], [], seconds)[0]:
            sockets[ready].read()

    def _text(self, value: object) -> str:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return Template(text).substitute(self._names) if "$" in text else text

    def _keep(self, step: Step, answer: Command) -> None:
        reported = answer.texts()
        for name, kept in step.keep.items():
            if name == "position" and "msgId" in reported:
                self._names[kept] = str(parse_offset_id(reported["msgId"].partition(",")[0])[1])
            else:
                self._names[kept] = reported.get(name, "-1")

    def _expect(self, expected: tuple[str, int], view: dict[str, object]) -> None:
        name, code = expected
        connection, end = self._connection(BROKER, name), time.monotonic() + _WAIT_SECONDS / 4
        while not any(each.code == code for each in connection.asked) and time.monotonic() < end:
            self._read(0.1)
        for each in connection.asked:
            if each.code == code:
                reported = {"oneway": each.is_oneway, **view_of(code, each)}
                view.update({f"heard.{path}": value for path, value in reported.items()})
                return
        view["heard.code"] = "nothing"


def _is_settled(step: Step, view: View) -> bool:
    return all(str(view.get(path)) == wanted for path, wanted in step.until.items())


def run_script(script: Script, cluster: Cluster, *, in_4: bool = False) -> dict[str, View]:
    """Put all steps of a script, and return what is seen of each answer, by the step's name."""
    with closing(_Run(cluster)) as run:
        return {step.name: run.do(step) for step in script.steps if step.in_4 or not in_4}
