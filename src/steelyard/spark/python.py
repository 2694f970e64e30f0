"""Which Python Spark's workers run on this machine: this very one, with PySpark as it is installed.

Spark puts archives in front of their path: PySpark, and one of its jars. Python keeps nothing that it compiled out of
an archive, so each process compiles half of PySpark anew, and looks through the jar for what is not in it: the better
part of a second of a processor at the start of every stream. What is installed is the same and is compiled already: a
script in front of Python takes the archives away.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from steelyard.spark.fronts import Front, write_front

__all__ = ["choose_python"]

_SCRIPT = """\
#!/bin/sh
# What these archives have is installed, too, and compiled; there is no Python in the jars.
set -f
kept= IFS=:
for each in $PYTHONPATH; do
  case "$each" in {package}/python/lib/*.zip | {package}/jars/*.jar) ;; *) kept="$kept${{kept:+:}}$each" ;; esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def choose_python(environ: Mapping[str, str]) -> str:
    """Return what workers are started with: a script in front of this Python, or itself if PySpark has no archive."""
    spec = find_spec("pyspark")
    package = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if package is None or not (package / "python" / "lib" / "pyspark.zip").is_file():
        return sys.executable
    script = _SCRIPT.format(package=shlex.quote(str(package)), python=shlex.quote(sys.executable))
    version = ".".join(map(str, sys.version_info[:3]))
    return str(write_front(f"python-{version}", {"python": Front(script, is_program=True)}, environ) / "python")
