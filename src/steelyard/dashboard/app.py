"""The dashboard as one ASGI application: the routes of its API and its files, behind authentication."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from steelyard.dashboard import static_files
from steelyard.dashboard.api import (
    brokers,
    dead_letters,
    groups,
    messages,
    offsets,
    overview,
    plan,
    producers,
    tail,
    topic_changes,
    topics,
)
from steelyard.dashboard.api_routing import ApiFailure, json_response
from steelyard.dashboard.auth import AuthMiddleware
from steelyard.dashboard.context import DashboardContext
from steelyard.dashboard.metrics import metrics_response
from steelyard.errors import SteelyardError

_API_MODULES = (
    overview,
    topics,
    topic_changes,
    groups,
    plan,
    offsets,
    messages,
    tail,
    dead_letters,
    producers,
    brokers,
)


def make_app(context: DashboardContext, port: int) -> AuthMiddleware:
    """Make the application for one cluster, served at a port."""
    app = Starlette(
        routes=[
            Route("/metrics", _metrics, methods=["GET"]),
            *(route for module in _API_MODULES for route in module.ROUTES),
            Route("/api/{rest:path}", _not_found, methods=["GET", "POST"]),
            *static_files.ROUTES,
            Route("/{rest:path}", static_files.index, methods=["GET"]),
        ]
    )
    app.state.context = context
    return AuthMiddleware(app, context.options, port, static_files.login_page())


async def _metrics(request: Request) -> Response:
    try:
        text, kind = await metrics_response(request.app.state.context, request.headers.get("accept", ""))
    except SteelyardError as error:
        return PlainTextResponse(f"# {error}\n", 503)
    return Response(text, media_type=kind)


async def _not_found(request: Request) -> Response:
    what = f"there is nothing at {request.url.path}"
    return json_response(ApiFailure(what, "NotFound", what), 404)
