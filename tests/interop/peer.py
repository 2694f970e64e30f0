"""A Java process that holds the classes of one release, asked through a pipe: a line out, a line back.

What is asked and what comes back is told by `java/peer/Peer.java`. A question that Java answered with an exception
raises `JavaRefused`, which tests that expect a refusal look at.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from tests.interop.jars import class_path

__all__ = ["JavaRefused", "Peer", "Word"]

Word = str | int | bytes | Mapping[str, str] | None
"""What a question may hold; truths are written as Java writes them, by bool being an int."""

# Small, because other things run on the machine too; local time that is not UTC, because unique keys are made of it.
_JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-Duser.timezone=GMT+05:30")


class JavaRefused(Exception):
    """Java threw something instead of an answer."""


class Peer:
    """One running Java process."""

    def __init__(self, release: str) -> None:
        self.release = release
        # Apache's loggers write below the home of the user: give them one that goes away.
        self._home = tempfile.TemporaryDirectory(prefix="steelyard-interop-")
        self._said = tempfile.TemporaryFile()
        places = [f"-Duser.home={self._home.name}", "-cp", class_path(release), "peer.Peer"]
        self._process = subprocess.Popen(
            [*_JAVA, *places], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, cwd=self._home.name
        )

    def ask(self, command: str, *words: Word) -> Any:
        """Ask, and return the answer as plain JSON values."""
        question = " ".join([command, *(written for word in words for written in _written(word))])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question.encode("ascii") + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            raise RuntimeError(f"Java {self.release} ended: {self._said.read().decode('utf-8', 'replace')[-2000:]}")
        answer = json.loads(line)
        if "refused" in answer:
            raise JavaRefused(answer["refused"])
        return answer["answer"]

    def ask_bytes(self, command: str, *words: Word) -> bytes:
        """Ask for bytes, which come as hexadecimal digits."""
        return bytes.fromhex(self.ask(command, *words))

    def close(self) -> None:
        """End the process: it stops when there is nothing more to read."""
        self._process.communicate()
        self._said.close()
        self._home.cleanup()


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
