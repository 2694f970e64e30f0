"""Who may come in, and what a browser is told to refuse: stands before everything else.

- The name in the Host header has to be one that the page knows, so that no foreign site can make a browser believe that
  the page is its own.
- Who has the token gets a cookie for it, SameSite=Strict and out of reach of scripts, and the token leaves the address
  bar. Programs send ``Authorization: Bearer TOKEN``.
- What is posted has to carry a header of ours, which no form and no foreign script can add, and has to come from here.
- The answers forbid everything but our own scripts, styles and pictures; nothing can frame the page.
- ``/metrics`` is open to programs of this machine, as exporters are; on other addresses it takes the token too.
"""

import hmac
import re
import secrets
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.dashboard.answers import Failure, json_answer
from steelyard.dashboard.options import PageOptions

__all__ = ["CHANGE_HEADER", "Door"]

CHANGE_HEADER = "x-steelyard"
"""Has to be there, with any value, on whatever is posted."""

_SHOWN_TO_ALL = ("/static/", "/favicon")
_YEAR_S = 365 * 24 * 3600
_LAST_PORT = 65_535

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Door:
    """Lets in who may, and says no to the rest."""

    def __init__(self, app: ASGIApp, options: PageOptions, port: int, stranger: Response) -> None:
        self._app, self._options = app, options
        self._hosts = options.known_hosts
        self._cookie = f"steelyard-page-{port}"
        self._session = secrets.token_urlsafe(24)
        self._stranger = stranger
        """What somebody without a token sees: a page that asks for it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    added[name] = value
                if "cache-control" not in added:
                    added["Cache-Control"] = "no-store"
            await send(message)

        answer = self._refused(scope, headers)
        await (answer or self._app)(scope, receive, guarded)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return what a request is answered that is not let in; None lets it in."""
        path, method = str(scope["path"]), str(scope["method"])
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            return _no(
                421,
                "this page is not known under that name",
                "open it by its address, or add its name with --also-as",
            )
        if method not in ("GET", "HEAD"):
            if CHANGE_HEADER not in headers or not self._is_from_here(headers):
                return _no(403, "this was not posted by the page", f"add the header {CHANGE_HEADER}: 1")
            return None if self._is_known(headers) else self._no_token()
        if path.startswith(_SHOWN_TO_ALL):
            return None
        if path == "/metrics" and self._options.is_open_to_this_machine_only:
            return None
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if "token" in given:
            return self._welcomed(path, given)
        if self._is_known(headers):
            return None
        return self._no_token() if path.startswith("/api/") or path == "/metrics" else self._stranger

    def _welcomed(self, path: str, given: dict[str, str]) -> Response:
        if not _equal(given.pop("token"), self._options.token):
            return self._stranger
        # A path that begins with two slashes would be another host.
        target = "/" + quote(path.lstrip("/")) + (f"?{urlencode(given)}" if given else "")
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            self._cookie, self._session, max_age=_YEAR_S, path="/", httponly=True, samesite="strict", secure=False
        )
        return answer

    def _is_known(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _equal(token.strip(), self._options.token):
            return True
        # Read as browsers write them: what others at this host set, on other ports, may be no good cookie.
        return _equal(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), self._session)

    def _is_from_here(self, headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc == headers.get("host", "")

    @staticmethod
    def _no_token() -> Response:
        return _no(
            401, "the page does not know you", "open it by the address with a token that was printed at its start"
        )


def _no(status: int, what: str, next_step: str) -> Response:
    if status == 421:
        return PlainTextResponse(f"{what}; {next_step}\n", status)
    return json_answer(Failure(f"{what}; {next_step}", "Refused", what, next_step), status)


_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)


def _name_of(host: str) -> str | None:
    """Return the name in a Host header without its port; None if there is anything else in it.

    >>> _name_of("localhost:9877"), _name_of("[::1]:9877"), _name_of("Page.Example")
    ('localhost', '::1', 'page.example')
    >>> _name_of("[::1]evil.example"), _name_of("localhost:80@evil.example"), _name_of("[localhost]"), _name_of("")
    (None, None, None, None)
    """
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return None
    return (found["v6"] or found["name"]).lower()


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
