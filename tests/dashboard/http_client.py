"""Asking a page as a browser does, without one: HTTP by hand, with the token, and the header on what is posted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from steelyard.dashboard.server import Dashboard
from tests.waiting import LONGEST_S


class HttpResponse:
    """What came back."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


def _connect(dashboard: Dashboard, timeout_s: float = LONGEST_S) -> HTTPConnection:
    where = urlsplit(dashboard.address)
    assert where.hostname is not None
    return HTTPConnection(where.hostname, where.port, timeout=timeout_s)


def http_request(
    dashboard: Dashboard, path: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None
) -> HttpResponse:
    """Ask anything, with exactly these headers."""
    connection = _connect(dashboard)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        return HttpResponse(connection.getresponse())
    finally:
        connection.close()


def _known(dashboard: Dashboard) -> dict[str, str]:
    return {"Authorization": f"Bearer {dashboard.options.token}"}


def get(dashboard: Dashboard, path: str, *, status: int = 200) -> Any:
    """Get a value as somebody who is let in."""
    answer = http_request(dashboard, path, headers=_known(dashboard))
    assert answer.status == status, answer.body
    return answer.json


def post(dashboard: Dashboard, path: str, value: object, *, status: int = 200) -> Any:
    """Post a value as the page does."""
    answer = http_request(
        dashboard, path, "POST", value, {**_known(dashboard), "X-Steelyard": "1", "Content-Type": "application/json"}
    )
    assert answer.status == status, answer.body
    return answer.json


@contextmanager
def stream(dashboard: Dashboard, path: str) -> Iterator[Iterator[Any]]:
    """Follow a stream: what is yielded goes through its values, failures as ``{"failure": …}``."""
    connection = _connect(dashboard)
    connection.request("GET", path, None, _known(dashboard))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    try:
        yield _events(response)
    finally:
        response.close()
        connection.close()


def _events(response: HTTPResponse) -> Iterator[Any]:
    kind = "message"
    for raw in response:
        text = raw.decode().rstrip("\n")
        if text.startswith("event: "):
            kind = text.removeprefix("event: ")
        elif text.startswith("data: "):
            value = json.loads(text.removeprefix("data: "))
            if kind == "end":
                return
            yield value if kind == "message" else {"failure": value}
            kind = "message"
