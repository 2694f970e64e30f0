r"""Terminal sessions of a page, typed again: what the page shows is what the command line prints.

A line that begins with ``$ `` is a command; lines that begin with ``> `` right below go on with it, and so does a line
after a ``\``. What follows is all that it prints, stdout before stderr; ``…`` stands for anything inside a line, and
for any lines if it is alone. ``[3]`` at the end is an exit code other than 0. A command that ends with ``&`` runs until
the page ends. Plain commands of ours run in this process, which is quicker; everything else is bash's.
"""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from steelyard.cli.main import main
from tests import forkserver
from tests.tidy.tree import ROOT, fences

PAGES = sorted(path.stem for path in (ROOT / "docs" / "cli").glob("*.md") if path.stem != "index")

_SHELL = re.compile(r"[|&;<>$`*?~\\(){}\n]|\bexport\b")
_ANYTHING = "…"
_CODE = re.compile(r"\[(\d+)\]")
_LONGEST_S = 90


@dataclass(frozen=True)
class Step:
    """A command, what it prints, how it ends, and where it stands."""

    place: str
    command: str
    printed: str
    code: int

    @property
    def words(self) -> list[str]:
        """The command as words, as far as a shell would have nothing to do."""
        return shlex.split(self.command, comments=True)


def steps_of(page: str, servers: str | None = None) -> list[Step]:
    """Return the steps of a page; those for the servers of ``ours`` or ``apache`` alone, or all."""
    path = ROOT / "docs" / "cli" / f"{page}.md"
    found: list[Step] = []
    text = path.read_text(encoding="utf-8")
    for fence in fences(f"docs/cli/{page}.md", text):
        # Beside the language: for which servers it is.
        language, _, only = text.splitlines()[fence.line - 1].lstrip("`~ ").partition(" ")
        if language == "console" and (servers is None or only.strip() in ("", servers)):
            found.extend(steps_in(fence.page, fence.line, fence.text))
    return found


def steps_in(page: str, first: int, text: str) -> Iterator[Step]:
    """Cut a session into its steps; the fence of it begins at a line of the page."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command, at = [lines[start].removeprefix("$ ")], start + 1
        while at < end and (lines[at].startswith("> ") or command[-1].endswith("\\")):
            command.append(lines[at].removeprefix("> "))
            at += 1
        shown = [line.rstrip() for line in lines[at:end]]
        while shown and not shown[-1]:
            shown.pop()
        code = _CODE.fullmatch(shown[-1]) if shown else None
        if code is not None:
            shown.pop()
        yield Step(f"{page}:{first + 1 + start}", "\n".join(command), "\n".join(shown), int(code[1]) if code else 0)


def play(page: str, namesrv: str, servers: str, directory: Path) -> int:
    """Type all commands of a page, in an empty directory; return how many there were."""
    steps = steps_of(page, servers)
    with _terminal(namesrv, directory) as run:
        for step in steps:
            run.type(step)
    return len(steps)


@contextmanager
def _terminal(namesrv: str, directory: Path) -> Iterator["_Terminal"]:
    home, tools, work = (directory / name for name in ("home", "tools", "work"))
    for each in (home, tools, work):
        each.mkdir()
    ours = tools / "steelyard"
    ours.write_text(f'#!/bin/sh\nexec {shlex.join(forkserver.python())} -m steelyard "$@"\n', encoding="utf-8")
    ours.chmod(0o755)
    python = tools / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(forkserver.python())} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    environment = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "NAMESRV_ADDR": namesrv,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }
    before = Path.cwd()
    with patch.dict(os.environ, environment), ExitStack() as stack:
        for name in ("COLUMNS", "STEELYARD_CONTEXT", "STEELYARD_CONTEXTS"):
            os.environ.pop(name, None)
        os.chdir(work)
        stack.callback(os.chdir, before)
        yield _Terminal(stack)


class _Terminal:
    """Where a session is typed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def type(self, step: Step) -> None:
        """Type a command and compare what it prints with what is shown."""
        if step.command.endswith("&"):
            self._start(step.command.removesuffix("&"))
            return
        is_ours = step.command.startswith("steelyard ") and not _SHELL.search(step.command)
        code, printed = self._call(step.words[1:]) if is_ours else self._shell(step.command)
        reported = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
        if not pattern_of(step.printed).fullmatch(reported):
            raise AssertionError(f"{step.place}: `{step.command}` prints\n{reported}\nand not\n{step.printed}")
        if code != step.code:
            raise AssertionError(f"{step.place}: `{step.command}` ends with {code} and not {step.code}:\n{reported}")

    def _call(self, words: list[str]) -> tuple[int, str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", io.StringIO()):
            code = main(words)
        return code, _text(out) + _text(err)

    def _shell(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
            env=_environment(),
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="backslashreplace")

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            ["/bin/bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
        )
        self._stack.callback(_end, process)


def _environment() -> dict[str, str]:
    """Return the environment as Python knows it: readline tells processes of a terminal that is not there."""
    return dict(os.environ)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="backslashreplace")


def pattern_of(shown: str) -> re.Pattern[str]:
    """Return what is shown as a pattern: runs of blanks are equal, and … is anything."""
    lines = []
    for line in shown.splitlines():
        if line.strip() == _ANYTHING:
            lines.append(r"(?:[^\n]*(?:\n|\Z))*?")
        else:
            words = (re.escape(word).replace(re.escape(_ANYTHING), r"[^\n]*?") for word in line.split())
            lines.append(r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*(?:\n|\Z)")
    return re.compile("".join(lines))
