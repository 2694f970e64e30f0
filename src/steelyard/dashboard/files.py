"""The page's own files: read once, compressed once, and never guessed from a path that a browser sends.

A page is many small files, and asking for each takes longer than anything else it does. So their addresses name the
edition, which changes with any of them: what a browser has under such an address it keeps, and never asks for again.
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

__all__ = ["FILES", "ROUTES", "StaticFile", "edition", "index", "load_files", "stranger"]

FILES = Path(__file__).parent / "static"

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_FOREVER = "public, max-age=31536000, immutable"
_FIRST = "js/main.js"
_IMPORTS = re.compile(r'^(?:import|export) [^;]*?from "(\.[^"]+)";', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page, as it is and compressed."""

    plain: bytes
    packed: bytes
    tag: str
    kind: str

    def answer(self, request: Request, *, keep: str = "no-cache") -> Response:
        """Answer with it, or that the browser has it already; ``keep`` says for how long it may be kept."""
        headers = {"ETag": self.tag, "Cache-Control": keep, "Vary": "Accept-Encoding"}
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
            found[path.relative_to(FILES).as_posix()] = _made(path.read_bytes(), _KINDS[path.suffix])
    return found


def _made(plain: bytes, kind: str) -> StaticFile:
    return StaticFile(plain, gzip.compress(plain, 9, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:20]}"', kind)


@cache
def edition() -> str:
    """Return what these files are called together: another word for any other files."""
    tags = "".join(name + file.tag for name, file in load_files().items())
    return f"edition-{hashlib.sha256(tags.encode()).hexdigest()[:12]}"


def _needed(script: str) -> list[str]:
    """Return a script and all that it imports, and so on: named at once, none is found out late."""
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
    """Return the page with the addresses of this edition, and all scripts named that the first page needs."""
    links = "\n".join(f'<link rel="modulepreload" href="/static/{name}">' for name in _needed(_FIRST))
    text = load_files()["index.html"].plain.decode().replace("</head>", f"{links}\n</head>")
    return _made(text.replace('"/static/', f'"/static/{edition()}/').encode(), _KINDS[".html"])


def stranger() -> Response:
    """Return the page that asks for the token."""
    return Response(load_files()["token.html"].plain, 401, media_type=_KINDS[".html"])


async def index(request: Request) -> Response:
    """Answer every address of the page with the same file: what it shows is up to its script."""
    return _index().answer(request)


async def _file(request: Request) -> Response:
    path: str = request.path_params["path"]
    name = path.removeprefix(f"{edition()}/")
    found = load_files().get(name)
    if found is None:
        return PlainTextResponse("there is no such file\n", 404)
    return found.answer(request) if name == path else found.answer(request, keep=_FOREVER)


async def _icon(request: Request) -> Response:
    return load_files()["icon.svg"].answer(request)


ROUTES = (Route("/static/{path:path}", _file, methods=["GET"]), Route("/favicon.ico", _icon, methods=["GET"]))
