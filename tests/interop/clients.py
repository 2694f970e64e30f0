"""A Java process that holds Apache's client and tools of one release, told what to do through a pipe.

What can be asked is told by `java/client/Client.java`. Answers come in the order of the questions; events, such as a
message that was handed to a consumer, come whenever they like and are kept by the name of who they are of. A question
that Java answered with an exception raises `JavaRefused`.
"""

import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from tests.interop.jars import RELEASE_4, client_class_path
from tests.waiting import LONGEST_S

T = TypeVar("T")

Event = dict[str, Any]
"""What Java tells of its own accord: at least `event` and `of`."""

# What the tools need of a modern Java, and loggers whose files go away with the home they are given.
_SETTINGS = (
    *("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=256m"),
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
_QUICK = ("-Drocketmq.client.rebalance.waitInterval=1000",)
_ANSWER_SECONDS = 60
_SILENT = "<configuration/>"


class JavaRefused(Exception):
    """Java threw something instead of an answer; `code` is the broker's response code, -1 if there is none."""

    def __init__(self, output: str, code: int) -> None:
        super().__init__(output)
        self.code = code


class JavaProcess:
    """One running Java client process."""

    def __init__(self, release: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.release = release
        self._process, self._output = process, output
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._happened = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_4(self) -> bool:
        """Whether this is the older release."""
        return self.release == RELEASE_4

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def ask(self, verb: str, **words: object) -> Any:
        """Ask, and return the answer as plain JSON values."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"verb": verb, **words}).encode("ascii") + b"\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=_ANSWER_SECONDS)
        if answer is None:
            self._output.seek(0)
            raise RuntimeError(
                f"the process of {self.release} ended: {self._output.read().decode('utf-8', 'replace')[-2000:]}"
            )
        if "refused" in answer:
            raise JavaRefused(answer["refused"], answer["code"])
        return answer["answer"]

    def events(self, of: str, kind: str) -> list[Event]:
        """Return what has happened so far to somebody, of one kind."""
        with self._happened:
            return [event for event in self._events[of] if event["event"] == kind]

    def wait(self, of: str, kind: str, enough: Callable[[list[Event]], bool], seconds: float) -> list[Event]:
        """Wait until what has happened is enough, and return it; what there is instead is told if time runs out."""
        end = time.monotonic() + seconds
        with self._happened:
            while True:
                found = [event for event in self._events[of] if event["event"] == kind]
                if enough(found):
                    return found
                left = end - time.monotonic()
                if left <= 0 or not self._happened.wait(left):
                    seen = [event.get("message", event) for event in self._events[of]]
                    raise AssertionError(f"not enough of {kind!r} within {seconds} s; there is {seen}")

    def kill(self) -> None:
        """End the process as a crash does: nobody is told."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Let the process find nothing more to read, and wait until it has gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reported = json.loads(line)
            if "event" not in reported:
                self._answers.put(reported)
                continue
            with self._happened:
                self._events[reported["of"]].append(reported)
                self._happened.notify_all()
        self._answers.put(None)


@contextmanager
def running_client(release: str, *, quick: bool = False) -> Iterator[JavaProcess]:
    """Start a process for a release; it ends when there is nothing more to read for it.

    A quick one looks at who owns what every second instead of every twenty: for tests that need no patience.
    """
    java = shutil.which("java") or "java"
    with tempfile.TemporaryDirectory(prefix="steelyard-client-") as home, tempfile.TemporaryFile() as output:
        _write_loggers(Path(home))
        places = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", client_class_path(release)]
        with subprocess.Popen(
            [java, *_SETTINGS, *(_QUICK if quick else ()), *places, "client.Client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=home,
        ) as process:
            client = JavaProcess(release, process, output)
            try:
                yield client
            finally:
                client.end()


def _write_loggers(home: Path) -> None:
    # The older release's tools do not run without this file; nobody reads what they would log.
    (home / "conf").mkdir()
    (home / "conf" / "logback_tools.xml").write_text(_SILENT)


def until(ask: Callable[[], T], enough: Callable[[T], bool], *, seconds: float = LONGEST_S) -> T:
    """Ask again and again until the answer is enough; the last one is told if time runs out."""
    end = time.monotonic() + seconds
    while True:
        answer = ask()
        if enough(answer):
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not so within {seconds} s; the last answer is {answer!r}")
        time.sleep(0.1)
