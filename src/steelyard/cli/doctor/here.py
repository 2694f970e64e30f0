"""This machine and this process, as far as they matter to a client: Python, extras, where the address comes from."""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from steelyard.cli.frame.contexts import load_contexts
from steelyard.client.connect import DEFAULT_ADDRESS, ENVIRONMENT
from steelyard.errors import SteelyardError
from steelyard.version import __version__

if TYPE_CHECKING:
    from steelyard.cli.frame.where import Where

__all__ = ["EXTRAS", "Here", "look_here"]

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "fast": ("uvloop", "backports.zstd") if sys.version_info < (3, 14) else ("uvloop",),
    "lz4": ("lz4",),
    "spark": ("pyspark", "pyarrow", "numpy"),
}
"""What an extra brings along."""

_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This machine, and what was said to the command line."""

    python: str = platform.python_version()
    system: str = ""
    release: str = __version__
    missing: tuple[str, ...] = ()
    """Packages of extras that are not installed."""
    address: str = DEFAULT_ADDRESS
    said_by: str = ""
    """Who said the address: an option, a context, the environment; empty if nobody did."""
    proxies: tuple[str, ...] = ()
    open_files: int | None = None
    """How many files and lines the process may have open; None where the system does not tell."""
    java: str | None = None
    """Which Java Spark would run on; None if that was not asked."""
    no_java: str | None = None
    """Why there is none."""


def look_here(where: "Where", address: str, *, spark: bool = False) -> Here:
    """Look at this machine."""
    packages = [package for extra in EXTRAS.values() for package in extra]
    java, no_java = _java() if spark else (None, None)
    return Here(
        system=f"{platform.system()} {platform.machine()}",
        missing=tuple(package for package in packages if not _is_there(package)),
        address=address,
        said_by=_said_by(where),
        proxies=tuple(name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())),
        open_files=_open_files(),
        java=java,
        no_java=no_java,
    )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it is a part of
        return False


def _said_by(where: "Where") -> str:
    if where.namesrv:
        return "--namesrv"
    if where.context is not None:
        return f"context {where.context}"
    if os.environ.get(ENVIRONMENT, "").strip():
        return ENVIRONMENT
    chosen = load_contexts().chosen
    return f"context {chosen}" if chosen is not None else ""


def _open_files() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _java() -> tuple[str | None, str | None]:
    from steelyard.spark.java import choose_java

    try:
        found = choose_java(os.environ)
    except SteelyardError as error:
        return None, error.what
    return f"Java {found.version} ({found.found})", None
