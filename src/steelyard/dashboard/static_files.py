"""The files of the dashboard: read once, compressed once, and never looked up by a path that a browser sends.

Their URLs carry a version of all of them, so a browser may cache them for ever.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

STATIC_DIRECTORY = Path(__file__).parent / "static"

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_IMMUTABLE = "public, max-age=31536000, immutable"
_ENTRY_SCRIPT = "js/main.js"
_IMPORTS = re.compile(r'^(?:import|export) [^;]*?from "(\.[^"]+)";', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, plain and compressed."""

    plain: bytes
    gzipped: bytes
    etag: str
    media_type: str

    def response(self, request: Request, *, cache_control: str = "no-cache") -> Response:
        """Respond with it, or with 304 if the browser has it already."""
        headers = {"ETag": self.etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(None, 304, headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.gzipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.plain, headers=headers, media_type=self.media_type)


@cache
def load_files() -> Mapping[str, StaticFile]:
    """Return all files, by their path below ``static``."""
    found = {}
    for path in sorted(STATIC_DIRECTORY.rglob("*")):
        if path.suffix in _MEDIA_TYPES:
            found[path.relative_to(STATIC_DIRECTORY).as_posix()] = _static_file(
                path.read_bytes(), _MEDIA_TYPES[path.suffix]
            )
    return found


def _static_file(plain: bytes, kind: str) -> StaticFile:
    return StaticFile(plain, gzip.compress(plain, 9, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:20]}"', kind)


@cache
def asset_version() -> str:
    """Return a name for the contents of all files together."""
    tags = "".join(name + file.etag for name, file in load_files().items())
    return f"edition-{hashlib.sha256(tags.encode()).hexdigest()[:12]}"


def _transitive_imports(script: str) -> list[str]:
    """Return a script and all that it imports, directly or not: preloaded at once, none is discovered late."""
    found, ahead = dict.fromkeys([script]), [script]
    while ahead:
        name = ahead.pop()
        for path in _IMPORTS.findall(load_files()[name].plain.decode()):
            wanted = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if wanted not in found:
                found[wanted] = None
                ahead.append(wanted)
    return list(found)


@cache
def _index() -> StaticFile:
    """Return index.html with versioned URLs, and preload links for the scripts of the first page."""
    links = "\n".join(
        f'<link rel="modulepreload" href="/static/{name}">' for name in _transitive_imports(_ENTRY_SCRIPT)
    )
    text = load_files()["index.html"].plain.decode().replace("</head>", f"{links}\n</head>")
    return _static_file(text.replace('"/static/', f'"/static/{asset_version()}/').encode(), _MEDIA_TYPES[".html"])


def login_page() -> Response:
    """Return the form that asks for the token."""
    return Response(load_files()["login.html"].plain, 401, media_type=_MEDIA_TYPES[".html"])


async def index(request: Request) -> Response:
    """Respond to every address with the same file: its script decides what to show."""
    return _index().response(request)


async def _file(request: Request) -> Response:
    path: str = request.path_params["path"]
    name = path.removeprefix(f"{asset_version()}/")
    found = load_files().get(name)
    if found is None:
        return PlainTextResponse("there is no such file\n", 404)
    return found.response(request) if name == path else found.response(request, cache_control=_IMMUTABLE)


async def _icon(request: Request) -> Response:
    return load_files()["icon.svg"].response(request)


ROUTES = (Route("/static/{path:path}", _file, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"]))
