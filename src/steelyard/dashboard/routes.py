"""How a part of the page says what it answers: an ordinary function, marked with what kind of question it is.

    @reads("/api/topics/{topic}")
    async def _topic(desk: Desk, ask: Ask) -> TopicAnswer: ...

`reads` looks at something. `tries` is posted and changes nothing: it answers what would change. `changes` changes
something: it is refused on a page that is read-only, and leaves a line in the audit. `streams` goes on answering. Both
`tries` and `changes` have to say, by ``ask.means``, which command line does the same.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from steelyard.dashboard.answers import Acted, Failure, failure_of, json_answer, refusal
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.audit import write_audit_line
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.watching import Trouble
from steelyard.errors import SteelyardError

__all__ = ["changes", "reads", "streams", "tries"]

_log = logging.getLogger("steelyard.page")

_Handler = Callable[[Desk, Ask], Awaitable[object]]
_Streamer = Callable[[Desk, Ask], AsyncIterator[object]]

_STILL_HERE_S = 10.0
_BUG = Failure("the page met a bug; its log says more", "Bug", "the page met a bug")


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def reads(path: str) -> Callable[[_Handler], Route]:
    """Answer a GET with what the function returns."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            return await _answered(handler, _desk(request), Ask(request))

        return Route(path, answer, methods=["GET"], name=handler.__name__)

    return route


def tries(path: str) -> Callable[[_Handler], Route]:
    """Answer a POST with what would change, and the command line that does it; nothing is changed."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            return await _answered(_with_command(handler), _desk(request), Ask(request))

        return Route(path, answer, methods=["POST"], name=handler.__name__)

    return route


def changes(path: str) -> Callable[[_Handler], Route]:
    """Answer a POST by changing something; refused where the page is read-only, and audited."""

    def route(handler: _Handler) -> Route:
        async def answer(request: Request) -> Response:
            desk, ask = _desk(request), Ask(request)
            if desk.options.read_only:
                what = "this page is read-only"
                write_audit_line(desk.options.audit, ask.asker, f"POST {request.url.path}", "refused: read-only")
                return json_answer(
                    Failure(f"{what}; use the command line", "ReadOnly", what, "use the command line"), 403
                )
            outcome = "not known: the page was stopped meanwhile"
            try:
                answered = await _answered(_with_command(handler), desk, ask)
                if answered.status_code < 400:
                    outcome = "done"
                else:
                    outcome = f"failed: {bytes(answered.body).decode(errors='replace')}"
            finally:
                # Whatever became of it: a line that is missing would say that nothing was changed.
                write_audit_line(desk.options.audit, ask.asker, ask.command or f"POST {request.url.path}", outcome)
            return answered

        return Route(path, answer, methods=["POST"], name=handler.__name__)

    return route


def _with_command(handler: _Handler) -> _Handler:
    async def act(desk: Desk, ask: Ask) -> Acted:
        value = await handler(desk, ask)
        return Acted(ask.command or "", value)

    return act


async def _answered(handler: _Handler, desk: Desk, ask: Ask) -> Response:
    try:
        return json_answer(await handler(desk, ask))
    except SteelyardError as error:
        return refusal(error)
    except Exception:
        _log.exception("a question of %s met a bug", ask.asker)
        return json_answer(_BUG, 500)


def streams(path: str) -> Callable[[_Streamer], Route]:
    """Answer a GET with server-sent events, one for each value, until the browser or the page goes away."""

    def route(handler: _Streamer) -> Route:
        async def answer(request: Request) -> Response:
            desk = _desk(request)
            body = _events(handler(desk, Ask(request)), desk)
            return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

        return Route(path, answer, methods=["GET"], name=handler.__name__)

    return route


async def _events(values: AsyncIterator[object], desk: Desk) -> AsyncIterator[bytes]:
    """Write values as events; now and then a comment, so that a browser notices when we are gone."""
    loop = asyncio.get_running_loop()
    closing = loop.create_task(desk.closing.wait())
    following: asyncio.Task[object] | None = None
    try:
        yield b": welcome\n\n"
        while not desk.closing.is_set():
            if following is None:
                following = loop.create_task(_next(values))
            await asyncio.wait({following, closing}, timeout=_STILL_HERE_S, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield b": still here\n\n"
                continue
            done, following = following, None
            try:
                value = done.result()
            except SteelyardError as error:
                yield _event(Trouble(error))
                return
            except Exception:
                _log.exception("a stream met a bug")
                yield b"event: trouble\ndata: " + msgspec.json.encode(_BUG) + b"\n\n"
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
        # A task cannot end with it.
        return _END


class _End:
    """Nothing comes after this."""


_END = _End()


def _event(value: object) -> bytes:
    if isinstance(value, Trouble):
        return b"event: trouble\ndata: " + msgspec.json.encode(failure_of(value.error)) + b"\n\n"
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
