"""Clients in other languages than Java: their programs are told what to do by the same lines, through a pipe.

`python -m tests.interop.guest_clients` builds and installs what it can, and prints what is missing for the rest;
tests only look it up, and are skipped where it is not there.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.interop import golang, nodejs
from tests.interop.clients import JavaProcess
from tests.interop.prepared import NotReady


@contextmanager
def running_guest(name: str, command: list[str], **environment: str) -> Iterator[JavaProcess]:
    """Start a program; it ends when there is nothing more to read for it."""
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-guest-") as home,
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=home,
            env=os.environ | {"HOME": home} | environment,  # offsets of broadcasts are kept there
        ) as process,
    ):
        guest = JavaProcess(name, process, output)
        try:
            yield guest
        finally:
            guest.end()


if __name__ == "__main__":
    for prepare in (golang.prepare, nodejs.prepare):
        try:
            prepare()
        except NotReady as problem:
            print(problem)
