"""Who is at an address that was given as a name server's: found out on live connections, encrypted and plain."""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, describe_group
from steelyard.client.admin.groups import GroupAdmin
from steelyard.client.cluster_facts import describe_settled_group, probe_name_servers
from steelyard.client.config import ClientConfig
from steelyard.diagnostics.servers import NameServerFacts, ServerKind
from steelyard.model.finding import Finding
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.topics import ClusterBody
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.net.test_tls import AUTHORITY, FILES
from tests.waiting import LONGEST_S


class _Server:
    """A server that answers every request with the same code, and counts its connections so that all are closed."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.connections: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the connection ends."""
        self.connections.append(writer)
        splitter = FrameDecoder()
        with suppress(OSError, ssl.SSLError):
            while data := await reader.read(65_536):
                for command in splitter.feed(data):
                    writer.write(encode_frame(self._answer(command)))

    def _answer(self, command: Command) -> Command:
        return response_to(command, self._code, body=encode_body(ClusterBody(brokers={}, clusters={})))


def seen(
    tls: bool | Path, *, encrypted: bool, code: int = ResponseCode.SUCCESS, wants_certificate: bool = False
) -> NameServerFacts:
    """Look at a server, and return what was seen."""

    async def collect() -> NameServerFacts:
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
            (found,) = await probe_name_servers(ClientConfig(f"localhost:{port}", tls=tls), LONGEST_S)
            for line in server.connections:
                line.transport.abort()
                with suppress(OSError):
                    await line.wait_closed()
        return found

    return asyncio.run(collect())


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
def test_connections_that_are_encrypted_on_one_side_only_are_seen(
    tls: bool | Path, encrypted: bool, kind: ServerKind
) -> None:
    found = seen(tls, encrypted=encrypted)
    assert (found.kind, found.works) == (kind, kind is ServerKind.NAME_SERVER)


def test_a_server_that_wants_certificates_of_clients_is_not_told_to_want_tls() -> None:
    found = seen(AUTHORITY, encrypted=True, wants_certificate=True)
    assert (found.kind, found.works) == (ServerKind.WANTS_CERTIFICATE, False)


class _HandingOver(GroupAdmin):
    """A client that finds a queue without an owner, and perhaps once more."""

    def __init__(self, admin: Admin, *findings: str) -> None:
        super().__init__(admin._session, admin.topics)
        self._left = list(findings)

    async def describe(
        self, name: str, earlier: GroupDescription | None = None, *, is_known: bool = False, ask_members: bool = True
    ) -> GroupDescription:
        """Return the group as it is at the next look."""
        del is_known, ask_members
        view = describe_group(GroupFacts(group=name, at_ms=0), earlier)
        return replace(view, findings=(Finding("twice c1", "c1 twice"), Finding("unowned queues", self._left.pop(0))))


@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [("nobody reads 1", "nobody reads 1", ["c1 twice", "nobody reads 1"]), ("nobody reads 1", "or 2", ["c1 twice"])],
)
def test_a_queue_without_an_owner_is_reported_only_if_that_lasts(first: str, second: str, reported: list[str]) -> None:
    admin = Admin("localhost:1")
    admin.groups = _HandingOver(admin, first, second)
    view = asyncio.run(describe_settled_group(admin, "billing", settled_s=0))
    assert [each.message for each in view.findings] == reported


def test_a_server_of_the_protocol_that_is_no_name_server_is_recognised() -> None:
    found = seen(False, encrypted=False, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert (found.kind, found.works) == (ServerKind.STRANGER, False)
