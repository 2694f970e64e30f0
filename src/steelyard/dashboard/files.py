"""The page's own files: read once, compressed once, and never guessed from a path that a browser sends."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["FILES", "ROUTES", "StaticFile", "index", "load_files", "stranger"]

FILES = Path(__file__).parent / "static"

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page, as it is and compressed."""

    plain: bytes
    packed: bytes
    tag: str
    kind: str

    def answer(self, request: Request) -> Response:
        """Answer with it, or that the browser has it already."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(None, 304, headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.kind)
        return Response(self.plain, headers=headers, media_type=self.kind)


@cache
def load_files() -> Mapping[str, StaticFile]:
    """Return all files, by their place below ``static``."""
    found = {}
    for path in sorted(FILES.rglob("*")):
        if path.suffix in _KINDS:
            plain = path.read_bytes()
            tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
            found[path.relative_to(FILES).as_posix()] = StaticFile(
                plain, gzip.compress(plain, 9, mtime=0), tag, _KINDS[path.suffix]
            )
    return found


def stranger() -> Response:
    """Return the page that asks for the token."""
    return Response(load_files()["token.html"].plain, 401, media_type=_KINDS[".html"])


async def index(request: Request) -> Response:
    """Answer every address of the page with the same file: what it shows is up to its script."""
    return load_files()["index.html"].answer(request)


async def _file(request: Request) -> Response:
    found = load_files().get(request.path_params["path"])
    return PlainTextResponse("there is no such file\n", 404) if found is None else found.answer(request)


async def _icon(request: Request) -> Response:
    return load_files()["icon.svg"].answer(request)


ROUTES = (Route("/static/{path:path}", _file, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"]))
