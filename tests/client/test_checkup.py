"""Who is at an address that was given as a name server's: found out on live lines, encrypted and plain."""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.net.test_tls import AUTHORITY, FILES

from steelyard.balance.hazards import Hazard
from steelyard.client.admin import Admin
from steelyard.client.admin.group_view import Facts, GroupView, look_at
from steelyard.client.checkup.facts import NameServerSeen, ServerKind
from steelyard.client.checkup.groups import look_at_group
from steelyard.client.checkup.looking import look_at_name_servers
from steelyard.client.connect import Connect
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.routes import ClusterBody
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame

_PATIENCE_S = 3.0


class _Server:
    """A server that answers every request with the same code, and counts its lines so that all are closed."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.lines: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the line ends."""
        self.lines.append(writer)
        splitter = Splitter()
        with suppress(OSError, ssl.SSLError):
            while data := await reader.read(65_536):
                for command in splitter.feed(data):
                    writer.write(encode_frame(self._answer(command)))

    def _answer(self, command: Command) -> Command:
        return answer_to(command, self._code, body=encode_body(ClusterBody(brokers={}, clusters={})))


def seen(
    tls: bool | Path, *, encrypted: bool, code: int = ResponseCode.SUCCESS, wants_certificate: bool = False
) -> NameServerSeen:
    """Look at a server, and return what was seen."""

    async def look() -> NameServerSeen:
        context = None
        if encrypted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(FILES / "server.pem")
            if wants_certificate:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(AUTHORITY)
        server = _Server(code)
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as running:
            port = running.sockets[0].getsockname()[1]
            (found,) = await look_at_name_servers(Connect(f"localhost:{port}", tls=tls), _PATIENCE_S)
            for line in server.lines:
                line.transport.abort()
                with suppress(OSError):
                    await line.wait_closed()
        return found

    return asyncio.run(look())


@pytest.mark.parametrize(
    ("tls", "encrypted", "kind"),
    [
        (False, False, ServerKind.NAME_SERVER),
        (AUTHORITY, True, ServerKind.NAME_SERVER),
        (False, True, ServerKind.TLS),
        (True, True, ServerKind.DISTRUSTED),
        (True, False, ServerKind.PLAIN),
    ],
)
def test_lines_that_are_encrypted_on_one_side_only_are_seen(
    tls: bool | Path, encrypted: bool, kind: ServerKind
) -> None:
    found = seen(tls, encrypted=encrypted)
    assert (found.kind, found.works) == (kind, kind is ServerKind.NAME_SERVER)


def test_a_server_that_wants_certificates_of_clients_is_not_told_to_want_tls() -> None:
    found = seen(AUTHORITY, encrypted=True, wants_certificate=True)
    assert (found.kind, found.works) == (ServerKind.WANTS_CERTIFICATE, False)


class _HandingOver(Admin):
    """A client that sees a queue without an owner, and perhaps once more."""

    def __init__(self, *hazards: str) -> None:
        super().__init__("localhost:1")
        self._left = list(hazards)

    async def group(
        self, name: str, earlier: GroupView | None = None, *, is_known: bool = False, ask_members: bool = True
    ) -> GroupView:
        """Return the group as it is at the next look."""
        del is_known, ask_members
        view = look_at(Facts(group=name, at_ms=0), earlier)
        return replace(view, hazards=(Hazard("twice c1", "c1 twice"), Hazard("unowned queues", self._left.pop(0))))


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [("nobody reads 1", "nobody reads 1", ["c1 twice", "nobody reads 1"]), ("nobody reads 1", "or 2", ["c1 twice"])],
)
def test_a_queue_without_an_owner_is_told_only_if_that_lasts(first: str, second: str, told: list[str]) -> None:
    view = asyncio.run(look_at_group(_HandingOver(first, second), "billing", settled_s=0))
    assert [each.sentence for each in view.hazards] == told


def test_a_server_of_the_protocol_that_is_no_name_server_is_a_stranger() -> None:
    found = seen(False, encrypted=False, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert (found.kind, found.works) == (ServerKind.STRANGER, False)
