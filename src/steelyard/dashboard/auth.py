"""Authentication of the dashboard, and the security headers of its responses; runs before everything else.

- The name in the Host header must be a known one, against DNS rebinding.
- The token is exchanged for a cookie (SameSite=Strict, HttpOnly). Programs send ``Authorization: Bearer TOKEN``.
- A POST must carry a header of ours, which no form and no foreign script can add, and must come from the same origin.
- ``/metrics`` is open to programs of this machine, as exporters are; on other addresses it takes the token too.
"""

import hmac
import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.dashboard.api_routing import ApiFailure, json_response
from steelyard.dashboard.options import DashboardOptions

_CSRF_HEADER = "x-steelyard"  # every POST must carry it, with any value

_PUBLIC_PATHS = ("/static/", "/favicon")
_YEAR_S = 365 * 24 * 3600
_LAST_PORT = 65_535

_SECURITY_HEADERS = {
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


class AuthMiddleware:
    """Passes on requests that may enter, and rejects the others."""

    def __init__(self, app: ASGIApp, options: DashboardOptions, port: int, login_page: Response) -> None:
        self._app, self._options = app, options
        self._hosts = options.known_hosts
        self._cookie = f"steelyard-dashboard-{port}"
        # Made of the token, so that a browser stays signed in as long as the token is the same.
        self._session = hmac.digest(options.token.encode(), b"steelyard dashboard session", "sha256").hex()
        self._login_page = login_page  # the response to a browser without a token: a form that asks for it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    added[name] = value
                if "cache-control" not in added:
                    added["Cache-Control"] = "no-store"
            await send(message)

        rejection = self._rejection(scope, headers)
        await (rejection or self._app)(scope, receive, guarded)

    def _rejection(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response that rejects a request, or None if it may enter."""
        path, method = str(scope["path"]), str(scope["method"])
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _host_name(hosts[0]) not in self._hosts:
            return _reject(
                421,
                "the dashboard is not known under that name",
                "open it by its address, or add its name with --also-as",
            )
        if method not in ("GET", "HEAD"):
            if _CSRF_HEADER not in headers or not self._is_same_origin(headers):
                return _reject(403, "this was not posted by the dashboard", f"add the header {_CSRF_HEADER}: 1")
            return None if self._is_authenticated(headers) else self._unauthorized()
        if path.startswith(_PUBLIC_PATHS):
            return None
        if path == "/metrics" and self._options.is_loopback_only:
            return None
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if "token" in given:
            return self._sign_in(path, given)
        if self._is_authenticated(headers):
            return None
        return self._unauthorized() if path.startswith("/api/") or path == "/metrics" else self._login_page

    def _sign_in(self, path: str, given: dict[str, str]) -> Response:
        if not _equal_secret(given.pop("token"), self._options.token):
            return self._login_page
        # A path that begins with two slashes would be another host.
        target = "/" + quote(path.lstrip("/")) + (f"?{urlencode(given)}" if given else "")
        response = RedirectResponse(target, 303)
        response.set_cookie(
            self._cookie, self._session, max_age=_YEAR_S, path="/", httponly=True, samesite="strict", secure=False
        )
        return response

    def _is_authenticated(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _equal_secret(token.strip(), self._options.token):
            return True
        # Parsed leniently: servers on other ports of this host may have set malformed cookies.
        return _equal_secret(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), self._session)

    def _is_same_origin(self, headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc == headers.get("host", "")

    @staticmethod
    def _unauthorized() -> Response:
        return _reject(
            401, "you are not signed in", "open it by the address with a token that was printed at its start"
        )


def _reject(status: int, what: str, next_step: str) -> Response:
    if status == 421:
        return PlainTextResponse(f"{what}; {next_step}\n", status)
    return json_response(ApiFailure(f"{what}; {next_step}", "Refused", what, next_step), status)


_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)


def _host_name(host: str) -> str | None:
    """Return the name in a Host header without its port; None if there is anything else in it.

    >>> _host_name("localhost:9877"), _host_name("[::1]:9877"), _host_name("Mq.Example")
    ('localhost', '::1', 'mq.example')
    >>> [_host_name(each) for each in ("[::1]evil.example", "localhost:80@evil.example", "[localhost]", "")]
    [None, None, None, None]
    """
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return None
    return (found["v6"] or found["name"]).lower()


def _equal_secret(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
