"""Lines of browsers that ask nothing, too slowly, or are too many; and who is said to have asked."""

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.dashboard.asking import ask

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.dashboard.routes import changes

_TOKEN = "a-token-that-nobody-guesses"
_NOWHERE = "127.0.0.1:1"
_ASKED = "POST /api/groups/g/offsets/reset HTTP/1.1\r\nHost: localhost\r\nX-Steelyard: 1\r\n"
_POST = f"{_ASKED}Authorization: Bearer {_TOKEN}\r\n".encode()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Run a page whose cluster is nowhere."""
    with Page(_NOWHERE, PageOptions(port=0, token=_TOKEN, audit=tmp_path / "audit.jsonl")) as running:
        assert ask(running, "/").status == 401  # it is ready
        yield running


def _line(page: Page, sent: bytes = b"") -> socket.socket:
    where = urlsplit(page.address)
    line = socket.create_connection((where.hostname, where.port or 0), timeout=20)
    line.sendall(sent)
    return line


def _is_closed(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
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
def test_a_line_on_which_nobody_asks_to_the_end_is_closed(
    page: Page, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.dashboard.lines._PATIENCE_S", 0.05)
    with _line(page, sent) as line:
        while not _is_closed(line):
            pass


def test_a_stream_lasts_however_long_it_asks_nothing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.lines._PATIENCE_S", 0.01)
    monkeypatch.setattr("steelyard.dashboard.routes._STILL_HERE_S", 0.05)
    asked = f"GET /api/brokers/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    with _line(page, asked.encode()) as line:
        taken = b""
        while taken.count(b": still here") < 5:
            taken += line.recv(4096)


def test_lines_beyond_a_number_are_closed_at_once(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.lines._MOST_LINES", 3)
    lines = [_line(page) for _ in range(3)]
    with _line(page) as further:
        assert _is_closed(further)
    for line in lines:
        line.close()


def test_lines_that_ask_nothing_lock_nobody_out(page: Page) -> None:
    half = b"GET / HTTP/1.1\r\nHost: localho"
    lines = [_line(page, half) for _ in range(450)]
    for _ in range(3):
        assert ask(page, "/api/about", headers={"Authorization": f"Bearer {_TOKEN}"}).status == 200
    assert _is_closed(lines[0]), "the one that has asked nothing for longest has to go"
    lines[-1].sendall(b"st\r\n\r\n")
    assert lines[-1].recv(12) == b"HTTP/1.1 401", "the last ones may ask on"
    for line in lines:
        line.close()


def test_a_stream_outlives_lines_that_ask_nothing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.routes._STILL_HERE_S", 0.05)
    asked = f"GET /api/brokers/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    with _line(page, asked.encode()) as stream:
        taken = stream.recv(4096)
        lines = [_line(page, b"GET") for _ in range(200)]
        assert _is_closed(lines[0])
        taken = b""
        while taken.count(b": still here") < 3:
            taken += stream.recv(4096)
        for line in lines:
            line.close()


def test_nobody_is_somebody_else_in_the_audit_by_saying_so(page: Page, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-Steelyard": "1", "X-Forwarded-For": "10.9.8.7"}
    ask(page, "/api/groups/billing/offsets/reset", "POST", {}, headers)
    who = json.loads((tmp_path / "audit.jsonl").read_text())["who"]
    assert who.startswith("127.0.0.1:")
    assert who.endswith(" (says it asks for '10.9.8.7')")


def test_a_change_that_is_under_way_when_the_page_stops_leaves_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    @changes("/api/slow")
    async def slow(desk: Desk, ask: Ask) -> None:
        del desk
        ask.means("steelyard slow")
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("steelyard.dashboard.api.about.ROUTES", (slow,))
    with Page(_NOWHERE, PageOptions(port=0, token=_TOKEN, audit=tmp_path / "audit.jsonl")) as page:
        asked = (
            f"POST /api/slow HTTP/1.1\r\nHost: localhost\r\nX-Steelyard: 1\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
        )
        line = _line(page, asked.encode())
        while not begun.is_set():
            ask(page, "/")
    line.close()
    row = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (row["what"], row["outcome"]) == ("steelyard slow", "not known: the page was stopped meanwhile")


def test_who_goes_away_while_posting_changed_nothing_and_is_no_bug(
    page: Page, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _line(page, _POST + b"Content-Length: 9\r\n\r\n{").close()
    audit = tmp_path / "audit.jsonl"
    while not audit.exists():
        ask(page, "/")
    page.stop()
    assert "went away before its end" in json.loads(audit.read_text())["outcome"]
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
