"""The page as one application: its routes behind its door."""

from importlib import import_module

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from steelyard.dashboard import files
from steelyard.dashboard.answers import Failure, json_answer
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.door import Door
from steelyard.dashboard.numbers.measures import exposition
from steelyard.errors import SteelyardError

__all__ = ["PARTS", "make_app"]

PARTS = (
    "about",
    "overview",
    "topics",
    "groups",
    "moves",
    "plan",
    "offsets",
    "messages",
    "tail",
    "dead_letters",
    "producers",
    "brokers",
)
"""The files of dashboard/api, each with its ROUTES."""


def make_app(desk: Desk, port: int) -> Door:
    """Make the application for one cluster, served at a port."""
    routes = [route for part in PARTS for route in import_module(f"steelyard.dashboard.api.{part}").ROUTES]
    app = Starlette(
        routes=[
            Route("/metrics", _metrics, methods=["GET"]),
            *routes,
            Route("/api/{rest:path}", _unknown, methods=["GET", "POST"]),
            *files.ROUTES,
            Route("/{rest:path}", files.index, methods=["GET"]),
        ]
    )
    app.state.desk = desk
    return Door(app, desk.options, port, files.stranger())


async def _metrics(request: Request) -> Response:
    try:
        text, kind = await exposition(request.app.state.desk, request.headers.get("accept", ""))
    except SteelyardError as error:
        return PlainTextResponse(f"# {error}\n", 503)
    return Response(text, media_type=kind)


async def _unknown(request: Request) -> Response:
    what = f"there is nothing at {request.url.path}"
    return json_answer(Failure(what, "NotFound", what), 404)
