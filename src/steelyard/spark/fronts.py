"""Scripts that stand in front of a program, in a cache directory: how a session gets Java and Python to run its way.

Files are written whole or not at all, so any number of processes may do it at the same time.
"""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Front", "write_front"]


class Front(NamedTuple):
    """A file of such a directory."""

    text: str
    is_program: bool = False


def write_front(name: str, files: Mapping[str, Front], environ: Mapping[str, str]) -> Path:
    """Write some files, by their paths, to a directory that is named after them, and return it."""
    told = "\0".join(f"{path}\0{file.text}" for path, file in files.items())
    folder = f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".cache")
        return _write_all(cache / "steelyard" / folder, files)
    except (OSError, RuntimeError):  # the latter where nothing says which directory is home
        # No home to write to, as in some containers: a directory for this process alone will do.
        own = Path(tempfile.mkdtemp(prefix="steelyard-front-"))
        atexit.register(shutil.rmtree, own, True)
        return _write_all(own, files)


def _write_all(folder: Path, files: Mapping[str, Front]) -> Path:
    for path, file in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        _write_whole(folder / path, file.text, 0o755 if file.is_program else 0o644)
    return folder


def _write_whole(path: Path, text: str, mode: int) -> None:
    """Write a file so that nobody ever sees half of it; one that is right already is left alone."""
    try:
        if path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == mode:
            return
    except (OSError, UnicodeDecodeError):
        pass
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as half:
        half.write(text)
    written = Path(half.name)
    written.chmod(mode)
    written.replace(path)
