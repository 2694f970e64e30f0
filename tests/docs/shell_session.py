"""A page typed from the top, as a person does it: files are saved under their names, commands go to one shell.

- A Python fence with a ``title`` is a file of that name.
- A console fence is typed into the shell, which stays the same to the end: ``$!`` and ``%1`` mean what they say.
- A console fence with a ``title`` is typed into a terminal of its own and goes on running; what it prints has to come.

What a page shows is compared as in the sessions of nouns (tests/cli/sessions.py). Ports are free ones, so that pages
can be typed at the same time; on the page they are the usual ones.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.cli.sessions import Step, pattern_of, steps_in
from tests.docs.python_examples import ADDRESS
from tests.tidy.tree import fences

_TITLE = re.compile(r"title=\"([^\"]+)\"")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
# What a shell says about its jobs when it comes to it.
_OF_JOBS = re.compile(r"^\S+: line \d+: +\d+ (?:Killed|Terminated)\b.*\n?", re.MULTILINE)
_SECONDS = 240


class Saved(NamedTuple):
    """A file that the reader saves."""

    name: str
    text: str


class Typed(NamedTuple):
    """What the reader types, in a terminal of its own or in the usual one."""

    steps: tuple[Step, ...]
    is_apart: bool


def parts_of(page: str, text: str) -> Iterator[Saved | Typed]:
    """Cut a page into what its reader does."""
    lines = text.splitlines()
    for fence in fences(page, text):
        titled = _TITLE.search(lines[fence.line - 1])
        language = fence.language.partition(" ")[0]
        if language == "python" and titled:
            yield Saved(titled[1], fence.text)
        elif language == "console":
            yield Typed(tuple(steps_in(page, fence.line, fence.text)), is_apart=titled is not None)


def type_along(parts: Iterator[Saved | Typed], directory: Path, environment: Mapping[str, str]) -> int:
    """Do what a page says, and return how many commands were typed; raises AssertionError where it goes otherwise."""
    typed, namesrv = 0, ADDRESS
    with _terminal(directory, environment) as usual:
        apart: list[_Terminal] = []
        try:
            for part in parts:
                if isinstance(part, Saved):
                    (directory / part.name).write_text(part.text.replace(ADDRESS, namesrv), encoding="utf-8")
                    continue
                for step in part.steps:
                    typed += 1
                    if part.is_apart:
                        apart.append(_Terminal(directory, environment))
                        if (address := apart[-1].leave_running(step)) is not None:
                            namesrv = address
                            usual.run(f"export NAMESRV_ADDR={namesrv}")
                    else:
                        usual.type(step)
        finally:
            for each in apart:
                each.close()
    return typed


class _Terminal:
    """A shell that stays, and what it has printed."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["/bin/bash", "--norc", "--noprofile"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._directory = directory
        self._printed = ""
        self._news = threading.Condition()
        self._asked = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, step: Step) -> None:
        """Type a command, wait for its end, and compare what it prints with what is shown."""
        code, printed = self.run(step.command)
        reported = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
        if not pattern_of(step.printed).fullmatch(reported):
            raise AssertionError(f"{step.place}: `{step.command}` prints\n{reported}\nand not\n{step.printed}")
        if code != step.code:
            raise AssertionError(f"{step.place}: `{step.command}` ends with {code} and not {step.code}:\n{reported}")

    def run(self, command: str) -> tuple[int, str]:
        """Type a command, and return its exit code and what was printed until its end."""
        self._asked += 1
        mark = f"=={self._asked}=="
        # A file, so that a command which reads what is typed does not read the next command.
        script = self._directory / f".typed-{id(self)}"
        script.write_text(f"{command}\n", encoding="utf-8")
        self._write(f". {script} < /dev/null; printf '\\n%s %s\\n' '{mark}' $?\n")
        ended = re.compile(rf"\n{mark} (\d+)\n")
        found = self._wait_for(ended, command)
        printed, self._printed = self._printed[: found.start()], self._printed[found.end() :]
        return int(found[1]), _OF_JOBS.sub("", printed)

    def leave_running(self, step: Step) -> str | None:
        """Start something that goes on, wait for each line that is shown; return the first address of a cluster."""
        is_cluster = step.command.startswith("steelyard up")
        self._write(f"{step.command} --port 0\n" if is_cluster else f"{step.command}\n")
        for line in _PORT.sub("127.0.0.1:…", step.printed).splitlines():
            self._wait_for(pattern_of(line), step.command)
        if not is_cluster:
            return None
        address = _PORT.search(self._printed)
        assert address is not None, f"{step.place} names no address"
        return address[0]

    def close(self) -> None:
        """End the shell and all that runs in it."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join()
        for stream in (self._shell.stdin, self._shell.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            with self._news:
                self._printed += line
                self._news.notify_all()

    def _wait_for(self, wanted: re.Pattern[str], command: str) -> re.Match[str]:
        end = time.monotonic() + _SECONDS
        with self._news:
            while (found := wanted.search(self._printed)) is None:
                left = end - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError(f"`{command}` never came to it:\n{self._printed}")
                self._news.wait(min(left, 1.0))
        return found


@contextmanager
def _terminal(directory: Path, environment: Mapping[str, str]) -> Iterator[_Terminal]:
    opened = _Terminal(directory, environment)
    try:
        yield opened
    finally:
        opened.close()
