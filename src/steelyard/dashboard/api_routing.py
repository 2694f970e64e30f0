"""The HTTP side of the API: routes, parsed requests, JSON responses and server-sent events.

    @query_route("/api/topics/{topic}")
    async def _topic(context: DashboardContext, request: ApiRequest) -> TopicResponse: ...

`query_route` reads. `preview_route` is a POST that changes nothing: it returns what would change. `action_route`
changes something: it is rejected if the dashboard is read-only, and leaves an audit entry. `stream_route` sends events.
Handlers of previews and actions call ``request.set_command`` with the command line that does the same. Every parameter
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
    TopicNotFound,
    TransportError,
)

__all__ = [
    "ActionResult",
    "ApiFailure",
    "ApiRequest",
    "action_route",
    "error_response",
    "json_response",
    "preview_route",
    "query_route",
    "stream_route",
]


T = TypeVar("T")

_MAX_BODY_BYTES = 256 * 1024
_MAX_TEXT_LENGTH = 4_096
_MAX_FORWARDED_LENGTH = 100


class ApiRequest:
    """One request of a browser."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.command: str | None = None  # the command line that does the same, once the handler has set it

    @property
    def requester(self) -> str:
        """The address of the client, and the one that a proxy claims to forward for, which any client can forge."""
        client, forwarded_for = self._request.client, self._request.headers.get("x-forwarded-for")
        address = "unknown" if client is None else f"{client.host}:{client.port}"
        return (
            address if forwarded_for is None else f"{address} (forwarded for {forwarded_for[:_MAX_FORWARDED_LENGTH]!r})"
        )

    def path(self, name: str) -> str:
        """Return a path parameter."""
        return str(self._request.path_params[name])

    def set_command(self, command: str) -> None:
        """Set the command line that does the same: it is shown, and written to the audit log."""
        self.command = command

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


_NOT_FOUND_ERRORS = (BrokerNotFound, GroupNotFound, NoMessage, NoRoute, NotFound, TopicNotFound)
_BAD_REQUEST_ERRORS = (ConfigurationError, InvalidParameter, IllegalOperation)


class ApiFailure(Struct, frozen=True):
    """Why a request failed."""

    error: str  # what happened, and what to do next: one sentence
    kind: str  # the class of the error
    what: str
    next: str | None = None


class ActionResult(Struct, frozen=True):
    """What was changed, or would be, and the command line that does the same."""

    command: str
    value: object


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _to_failure(error: SteelyardError) -> ApiFailure:
    """Return an error as the browser gets it."""
    return ApiFailure(str(error), type(error).__name__, error.what, error.next_step)


def error_response(error: SteelyardError) -> Response:
    """Return an error with the status that says whose fault it was."""
    if isinstance(error, _NOT_FOUND_ERRORS):
        status = 404
    elif isinstance(error, NoPermission):
        status = 403
    elif isinstance(error, _BAD_REQUEST_ERRORS):
        status = 400
    elif isinstance(error, RequestNotSupported):
        status = 501
    else:
        status = 503 if isinstance(error, TransportError) else 502
    return json_response(_to_failure(error), status)


_log = logging.getLogger("steelyard.dashboard")

_Handler = Callable[[DashboardContext, ApiRequest], Awaitable[object]]
_Streamer = Callable[[DashboardContext, ApiRequest], AsyncIterator[object]]

_KEEPALIVE_S = 10.0
_BUG = ApiFailure("the dashboard has a bug; see its log", "Bug", "the dashboard has a bug")


def _context(request: Request) -> DashboardContext:
    context: DashboardContext = request.app.state.context
    return context


def query_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to GET with what the function returns."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            return await _respond(handler, _context(request), ApiRequest(request))

        return Route(path, answer, methods=["GET"], name=handler.__name__)

    return route


def preview_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to POST with what would change, and the command line that does it."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            return await _respond(_with_command(handler), _context(request), ApiRequest(request))

        return Route(path, answer, methods=["POST"], name=handler.__name__)

    return route


def action_route(path: str) -> Callable[[_Handler], Route]:
    """Respond to POST by changing something; rejected if the dashboard is read-only, and audited."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            context, parsed = _context(request), ApiRequest(request)
            if context.options.read_only:
                what = "the dashboard is read-only"
                write_audit_entry(
                    context.options.audit_file, parsed.requester, f"POST {request.url.path}", "rejected: read-only"
                )
                return json_response(
                    ApiFailure(f"{what}; use the command line", "ReadOnly", what, "use the command line"), 403
                )
            outcome = "unknown: the dashboard stopped meanwhile"
            try:
                response = await _respond(_with_command(handler), context, parsed)
                if response.status_code < 400:
                    outcome = "done"
                else:
                    outcome = f"failed: {bytes(response.body).decode(errors='replace')}"
            finally:
                # Whatever the outcome: a missing entry would mean that nothing was changed.
                write_audit_entry(
                    context.options.audit_file, parsed.requester, parsed.command or f"POST {request.url.path}", outcome
                )
            return response

        return Route(path, answer, methods=["POST"], name=handler.__name__)

    return route


def _with_command(handler: _Handler) -> _Handler:
    async def act(context: DashboardContext, request: ApiRequest) -> ActionResult:
        value = await handler(context, request)
        return ActionResult(request.command or "", value)

    return act


async def _respond(handler: _Handler, context: DashboardContext, request: ApiRequest) -> Response:
    try:
        return json_response(await handler(context, request))
    except SteelyardError as error:
        return error_response(error)
    except Exception:
        _log.exception("bug in a request of %s", request.requester)
        return json_response(_BUG, 500)


def stream_route(path: str) -> Callable[[_Streamer], Route]:
    """Respond to GET with server-sent events, one for each value, until the browser or the dashboard goes away."""

    def route(handler: _Streamer) -> Route:
        async def answer(request: Request) -> Response:
            context = _context(request)
            body = _server_sent_events(handler(context, ApiRequest(request)), context)
            return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

        return Route(path, answer, methods=["GET"], name=handler.__name__)

    return route


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
                yield b"event: failure\ndata: " + msgspec.json.encode(_BUG) + b"\n\n"
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


class _End:
    """Marks the end of a stream."""


_END = _End()


def _event(value: object) -> bytes:
    if isinstance(value, PollFailure):
        return b"event: failure\ndata: " + msgspec.json.encode(_to_failure(value.error)) + b"\n\n"
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
