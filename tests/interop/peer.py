"""A Java process that holds the classes of one release, asked through a pipe: a line out, a line back.

What is asked and what comes back is told by `java/peer/Peer.java`. A question that Java answered with an exception
raises `JavaRefused`, which tests that expect a refusal look at.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from tests.interop.jars import RELEASE_4, class_path

Word = str | int | bytes | Mapping[str, str] | None
"""What a question may hold."""

# Small, because other things run on the machine too; local time that is not UTC, because unique keys are made of it.
_SETTINGS = ("-Xmx512m", "-XX:+UseSerialGC", "-Duser.timezone=GMT+05:30")


class JavaRefused(Exception):
    """Java threw something instead of an answer."""


class Peer:
    """One running Java process."""

    def __init__(self, release: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.release = release
        self._process, self._output = process, output

    @property
    def is_4(self) -> bool:
        """Whether this is the older release, which knows less and forgives more."""
        return self.release == RELEASE_4

    def ask(self, command: str, *words: Word) -> Any:
        """Ask, and return the answer as plain JSON values."""
        question = " ".join([command, *(written for word in words for written in _written(word))])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question.encode("ascii") + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._output.seek(0)
            raise RuntimeError(f"Java {self.release} ended: {self._output.read().decode('utf-8', 'replace')[-2000:]}")
        answer = json.loads(line)
        if "refused" in answer:
            raise JavaRefused(answer["refused"])
        return answer["answer"]

    def ask_bytes(self, command: str, *words: Word) -> bytes:
        """Ask for bytes, which come as hexadecimal digits."""
        return bytes.fromhex(self.ask(command, *words))


@contextmanager
def running(release: str) -> Iterator[Peer]:
    """Start a process for a release; it ends when there is nothing more to read for it."""
    java = shutil.which("java") or "java"
    with (
        # Apache's loggers write below the home of the user: give them one that goes away.
        tempfile.TemporaryDirectory(prefix="steelyard-interop-") as home,
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            [java, *_SETTINGS, f"-Duser.home={home}", "-cp", class_path(release), "peer.Peer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=home,
        ) as process,
    ):
        yield Peer(release, process, output)


def _written(word: Word) -> Iterator[str]:
    if word is None:
        yield "-"
    elif isinstance(word, Mapping):
        yield from _written(len(word))
        for name, value in word.items():
            yield from _written(name)
            yield from _written(value)
    elif isinstance(word, bytes):
        yield f"x{word.hex()}"
    else:
        yield f"x{str(word).encode().hex()}"
