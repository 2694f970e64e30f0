"""Lines of browsers that ask nothing, too slowly, or are too many; and who is said to have asked."""

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from steelyard.dashboard.api_routing import ApiRequest, action_route
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from tests.dashboard.http_client import http_request

_TOKEN = "a-token-that-nobody-guesses"
_NOWHERE = "127.0.0.1:1"
_ASKED = "POST /api/groups/g/offsets/reset HTTP/1.1\r\nHost: localhost\r\nX-Steelyard: 1\r\n"
_POST = f"{_ASKED}Authorization: Bearer {_TOKEN}\r\n".encode()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    """Run a page whose cluster is nowhere."""
    with Dashboard(_NOWHERE, DashboardOptions(port=0, token=_TOKEN, audit_file=tmp_path / "audit.jsonl")) as running:
        assert http_request(running, "/").status == 401  # it is ready
        yield running


def _connection(dashboard: Dashboard, sent: bytes = b"") -> socket.socket:
    where = urlsplit(dashboard.address)
    connection = socket.create_connection((where.hostname, where.port or 0), timeout=20)
    connection.sendall(sent)
    return connection


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localho",
        b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT",
        _POST + b"Content-Length: 9\r\n\r\n{",
    ],
)
def test_a_connection_with_an_unfinished_request_is_closed(
    dashboard: Dashboard, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.dashboard.connection_limits._IDLE_TIMEOUT_S", 0.05)
    with _connection(dashboard, sent) as connection:
        while not _is_closed(connection):
            pass


def test_a_stream_lasts_however_long_it_asks_nothing(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.connection_limits._IDLE_TIMEOUT_S", 0.01)
    monkeypatch.setattr("steelyard.dashboard.api_routing._KEEPALIVE_S", 0.05)
    asked = f"GET /api/brokers/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    with _connection(dashboard, asked.encode()) as connection:
        taken = b""
        while taken.count(b": still here") < 5:
            taken += connection.recv(4096)


def test_connections_beyond_a_number_are_closed_at_once(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.connection_limits._MAX_CONNECTIONS", 3)
    lines = [_connection(dashboard) for _ in range(3)]
    with _connection(dashboard) as further:
        assert _is_closed(further)
    for connection in lines:
        connection.close()


def test_idle_connections_lock_nobody_out(dashboard: Dashboard) -> None:
    half = b"GET / HTTP/1.1\r\nHost: localho"
    lines = [_connection(dashboard, half) for _ in range(450)]
    for _ in range(3):
        assert http_request(dashboard, "/api/about", headers={"Authorization": f"Bearer {_TOKEN}"}).status == 200
    assert _is_closed(lines[0]), "the one that has asked nothing for longest has to go"
    lines[-1].sendall(b"st\r\n\r\n")
    assert lines[-1].recv(12) == b"HTTP/1.1 401", "the last ones may ask on"
    for connection in lines:
        connection.close()


def test_a_stream_outlives_idle_connections(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.api_routing._KEEPALIVE_S", 0.05)
    asked = f"GET /api/brokers/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    with _connection(dashboard, asked.encode()) as stream:
        taken = stream.recv(4096)
        lines = [_connection(dashboard, b"GET") for _ in range(200)]
        assert _is_closed(lines[0])
        taken = b""
        while taken.count(b": still here") < 3:
            taken += stream.recv(4096)
        for connection in lines:
            connection.close()


def test_nobody_is_somebody_else_in_the_audit_by_saying_so(dashboard: Dashboard, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1", "X-Forwarded-For": "10.9.8.7"}
    http_request(dashboard, "/api/groups/billing/offsets/reset", "POST", {}, headers)
    who = json.loads((tmp_path / "audit.jsonl").read_text())["who"]
    assert who.startswith("127.0.0.1:")
    assert who.endswith(" (forwarded for '10.9.8.7')")


def test_a_change_that_is_under_way_when_the_dashboard_stops_is_in_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    @action_route("/api/slow")
    async def slow(dashboard_context: DashboardContext, ask: ApiRequest) -> None:
        del dashboard_context
        ask.command = "steelyard slow"
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("steelyard.dashboard.api.overview.ROUTES", (slow,))
    with Dashboard(_NOWHERE, DashboardOptions(port=0, token=_TOKEN, audit_file=tmp_path / "audit.jsonl")) as dashboard:
        asked = (
            f"POST /api/slow HTTP/1.1\r\nHost: localhost\r\nX-Steelyard: 1\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
        )
        connection = _connection(dashboard, asked.encode())
        while not begun.is_set():
            http_request(dashboard, "/")
    connection.close()
    row = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (row["what"], row["outcome"]) == ("steelyard slow", "unknown: the dashboard stopped meanwhile")


def test_who_goes_away_while_posting_changed_nothing_and_is_no_bug(
    dashboard: Dashboard, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _connection(dashboard, _POST + b"Content-Length: 9\r\n\r\n{").close()
    audit = tmp_path / "audit.jsonl"
    while not audit.exists():
        http_request(dashboard, "/")
    dashboard.stop()
    assert "disconnected before the end of its request" in json.loads(audit.read_text())["outcome"]
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
