"""The HTTP side of the API: routes, parsed requests, JSON responses and server-sent events.

    @query_route("/api/topics/{topic}")
    async def _topic(context: DashboardContext, request: ApiRequest) -> TopicResponse: ...

Handlers of previews and actions set ``request.command`` to the command line that does the same. Every parameter
has a type and a limit, and a failure is one sentence with the status that says whose fault it was.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from steelyard.dashboard.audit_log import write_audit_entry
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.polling import PollFailure
from steelyard.errors import (
    BrokerNotFound,
    ConfigurationError,
    GroupNotFound,
    IllegalOperation,
    InvalidParameter,
    NoMessage,
    NoPermission,
    NoRoute,
    NotFound,
    RequestNotSupported,
    SteelyardError,
    TopicExists,
    TopicNotFound,
    TransportError,
)

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

_MAX_BODY_BYTES = 256 * 1024
_MAX_TEXT_LENGTH = 4_096
_MAX_FORWARDED_LENGTH = 100


class ApiRequest:
    """One request of a browser."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.command: str | None = None  # the command line that does the same: it is shown, and audited

    @property
    def requester(self) -> str:
        """The address of the client, and the one that a proxy claims to forward for, which any client can forge."""
        client, forwarded_for = self._request.client, self._request.headers.get("x-forwarded-for")
        address = "unknown" if client is None else f"{client.host}:{client.port}"
        if forwarded_for is None:
            return address
        return f"{address} (forwarded for {forwarded_for[:_MAX_FORWARDED_LENGTH]!r})"

    @property
    def url_path(self) -> str:
        """The path of the requested URL."""
        return self._request.url.path

    def path(self, name: str) -> str:
        """Return a path parameter."""
        return str(self._request.path_params[name])

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text of the query, or the default if it is missing or empty."""
        found = self._request.query_params.get(name)
        if found is not None and len(found) > _MAX_TEXT_LENGTH:
            raise ConfigurationError(
                f"{name} has {len(found)} characters", next_step=f"give {_MAX_TEXT_LENGTH} at most"
            )
        return found or default

    def required_text(self, name: str) -> str:
        """Return a required text of the query."""
        found = self.text(name)
        if found is None:
            raise ConfigurationError(f"{name} is missing", next_step=f"add {name}= to the address")
        return found

    def integer(self, name: str, default: int, *, minimum: int = 0, maximum: int) -> int:
        """Return a whole number of the query."""
        found = self.text(name)
        if found is None:
            return default
        try:
            number = int(found)
        except ValueError:
            number = minimum - 1
        if not minimum <= number <= maximum:
            raise ConfigurationError(f"{name} is {found[:40]!r}", next_step=f"give {minimum} to {maximum}")
        return number

    def flag(self, name: str) -> bool:
        """Say whether a flag of the query is set."""
        return self.text(name) in ("1", "true", "yes", "on")

    async def body(self, kind: type[T]) -> T:
        """Decode the posted JSON."""
        received = bytearray()
        try:
            async for piece in self._request.stream():
                received += piece
                if len(received) > _MAX_BODY_BYTES:
                    raise ConfigurationError(
                        f"the request body is larger than {_MAX_BODY_BYTES} bytes", next_step="post less at a time"
                    )
        except ClientDisconnect:
            raise ConfigurationError(
                "the client disconnected before the end of its request", next_step="post it again"
            ) from None
        try:
            return msgspec.json.decode(bytes(received), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the request body cannot be read: {error}", next_step="see what the dashboard itself posts"
            ) from None


_STATUS_OF_ERRORS: tuple[tuple[tuple[type[SteelyardError], ...], int], ...] = (
    ((BrokerNotFound, GroupNotFound, NoMessage, NoRoute, NotFound, TopicNotFound), 404),
    ((NoPermission,), 403),
    ((ConfigurationError, InvalidParameter, IllegalOperation, TopicExists), 400),
    ((RequestNotSupported,), 501),
    ((TransportError,), 503),
)


class ApiFailure(Struct, frozen=True):
    """Why a request failed."""

    error: str  # what happened, and what to do next: one sentence
    kind: str  # the class of the error
    what: str
    next: str | None = None


class _ActionResult(Struct, frozen=True):
    """What was changed, or would be, and the command line that does the same."""

    command: str
    value: object


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def copy_fields(kind: type[S], source: object, **others: object) -> S:
    """Make a response of what a source has under the same names, and of the others."""
    names = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(source, name) for name in names}, **others)


def _to_failure(error: SteelyardError) -> ApiFailure:
    """Return an error as the browser gets it."""
    return ApiFailure(str(error), type(error).__name__, error.what, error.next_step)


def error_response(error: SteelyardError) -> Response:
    """Return an error with the status that says whose fault it was."""
    status = next((status for kinds, status in _STATUS_OF_ERRORS if isinstance(error, kinds)), 502)
    return json_response(_to_failure(error), status)


_log = logging.getLogger("steelyard.dashboard")

_Handler = Callable[[DashboardContext, ApiRequest], Awaitable[object]]
_Streamer = Callable[[DashboardContext, ApiRequest], AsyncIterator[object]]
H = TypeVar("H", _Handler, _Streamer)

_KEEPALIVE_S = 10.0
_BUG = ApiFailure("the dashboard has a bug; see its log", "Bug", "the dashboard has a bug")


def _route(
    path: str, method: str, answer: Callable[[H, DashboardContext, ApiRequest], Awaitable[Response]]
) -> Callable[[H], Route]:
    """Return a decorator that makes a route of a handler."""

    def route(handler: H) -> Route:
        async def endpoint(request: Request) -> Response:
            return await answer(handler, request.app.state.context, ApiRequest(request))

        return Route(path, endpoint, methods=[method], name=handler.__name__)

    return route


def query_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to GET with what the function returns."""
    return _route(path, "GET", _respond)


def preview_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to POST with what would change, and the command line that does it."""
    return _route(path, "POST", _respond_with_command)


def action_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to POST by changing something; rejected if the dashboard is read-only, and audited."""
    return _route(path, "POST", _act)


def stream_route(path: str) -> Callable[[_Streamer], Route]:
    """Respond to GET with server-sent events, one for each value, until the browser or the dashboard goes away."""
    return _route(path, "GET", _stream)


def live_route(path: str, period_ms: Callable[[], int]) -> Callable[[_Handler], Route]:
    """Respond to GET with an event each period: what the function returns, called once for all browsers of a path."""

    async def stream(handler: _Handler, context: DashboardContext, request: ApiRequest) -> Response:
        polls = context.polls.subscribe(request.url_path, period_ms(), lambda _: handler(context, request))
        return _event_stream(polls, context)

    return _route(path, "GET", stream)


async def _respond(handler: _Handler, context: DashboardContext, request: ApiRequest) -> Response:
    try:
        return json_response(await handler(context, request))
    except SteelyardError as error:
        return error_response(error)
    except Exception:
        _log.exception("bug in a request of %s", request.requester)
        return json_response(_BUG, 500)


async def _respond_with_command(handler: _Handler, context: DashboardContext, request: ApiRequest) -> Response:
    async def act(context: DashboardContext, request: ApiRequest) -> _ActionResult:
        value = await handler(context, request)
        return _ActionResult(request.command or "", value)

    return await _respond(act, context, request)


async def _act(handler: _Handler, context: DashboardContext, request: ApiRequest) -> Response:
    file, post = context.options.audit_file, f"POST {request.url_path}"
    if context.options.read_only:
        what, next_step = "the dashboard is read-only", "use the command line"
        write_audit_entry(file, request.requester, post, "rejected: read-only")
        return json_response(ApiFailure(f"{what}; {next_step}", "ReadOnly", what, next_step), 403)
    outcome = "unknown: the dashboard stopped meanwhile"
    try:
        response = await _respond_with_command(handler, context, request)
        failure = f"failed: {bytes(response.body).decode(errors='replace')}"
        outcome = "done" if response.status_code < 400 else failure
    finally:
        # Whatever the outcome: a missing entry would mean that nothing was changed.
        write_audit_entry(file, request.requester, request.command or post, outcome)
    return response


async def _stream(handler: _Streamer, context: DashboardContext, request: ApiRequest) -> Response:
    return _event_stream(handler(context, request), context)


def _event_stream(values: AsyncIterator[object], context: DashboardContext) -> Response:
    body = _server_sent_events(values, context)
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _server_sent_events(values: AsyncIterator[object], context: DashboardContext) -> AsyncIterator[bytes]:
    """Encode values as events, with keep-alive comments in between, so that a browser notices a lost server."""
    loop = asyncio.get_running_loop()
    closing = loop.create_task(context.closing.wait())
    following: asyncio.Task[object] | None = None
    try:
        yield b": welcome\n\n"
        while not context.closing.is_set():
            if following is None:
                following = loop.create_task(_next(values))
            await asyncio.wait({following, closing}, timeout=_KEEPALIVE_S, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield b": still here\n\n"
                continue
            done, following = following, None
            try:
                value = done.result()
            except SteelyardError as error:
                yield _event(PollFailure(error))
                return
            except Exception:
                _log.exception("bug in a stream")
                yield _event(_BUG)
                return
            if value is _END:
                yield b"event: end\ndata: null\n\n"
                return
            yield _event(value)
    finally:
        closing.cancel()
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await following
        close = getattr(values, "aclose", None)
        if close is not None:
            await close()


async def _next(values: AsyncIterator[object]) -> object:
    try:
        return await anext(values)
    except StopAsyncIteration:
        # A task cannot raise it.
        return _END


_END = object()  # the end of a stream


def _event(value: object) -> bytes:
    if isinstance(value, PollFailure):
        value = _to_failure(value.error)
    name = b"event: failure\n" if isinstance(value, ApiFailure) else b""
    return name + b"data: " + msgspec.json.encode(value) + b"\n\n"
