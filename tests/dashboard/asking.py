"""Asking a page as a browser does, without one: HTTP by hand, with the token, and the header on what is posted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from steelyard.dashboard.page import Page

__all__ = ["Answer", "ask", "get", "post", "stream"]


class Answer:
    """What came back."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


def _line(page: Page, timeout_s: float = 20.0) -> HTTPConnection:
    where = urlsplit(page.address)
    assert where.hostname is not None
    return HTTPConnection(where.hostname, where.port, timeout=timeout_s)


def ask(
    page: Page, path: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    """Ask anything, with exactly these headers."""
    line = _line(page)
    try:
        line.request(method, path, None if body is None else json.dumps(body), headers or {})
        return Answer(line.getresponse())
    finally:
        line.close()


def _known(page: Page) -> dict[str, str]:
    return {"Authorization": f"Bearer {page.options.token}"}


def get(page: Page, path: str, *, status: int = 200) -> Any:
    """Get a value as somebody who is let in."""
    answer = ask(page, path, headers=_known(page))
    assert answer.status == status, answer.body
    return answer.json


def post(page: Page, path: str, value: object, *, status: int = 200) -> Any:
    """Post a value as the page does."""
    answer = ask(page, path, "POST", value, {**_known(page), "X-Steelyard": "1", "Content-Type": "application/json"})
    assert answer.status == status, answer.body
    return answer.json


@contextmanager
def stream(page: Page, path: str) -> Iterator[Iterator[Any]]:
    """Follow a stream: what is yielded goes through its values, troubles as ``{"trouble": …}``."""
    line = _line(page)
    line.request("GET", path, None, _known(page))
    response = line.getresponse()
    assert response.status == 200, response.read()
    try:
        yield _events(response)
    finally:
        response.close()
        line.close()


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
            yield value if kind == "message" else {"trouble": value}
            kind = "message"
