"""Members of a group, each a process of its own, that report which queues they hold: in Java, in Go, and ours.

All of them are told what to do by the same lines through a pipe, and tell `queues` whenever they hold another set than
before, with the time by the machine's clock. A process that runs already joins within milliseconds, so that what is
measured is the group and not the start of a virtual machine; one whose member left is used again.
"""

import itertools
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from steelyard.model import Queue
from tests.interop import golang
from tests.interop.clients import JavaProcess, running_client
from tests.interop.guest_clients import running_guest
from tests.interop.jars import RELEASE_4, RELEASE_5

JAVA_4, JAVA_5, GO, OURS = f"java-{RELEASE_4}", f"java-{RELEASE_5}", "go", "ours"
JAVA = (JAVA_4, JAVA_5)

Held = frozenset[Queue]
"""The queues that a member holds at a moment."""

_ROOT = Path(__file__).parents[3]
_JOIN_SECONDS = 60
_numbers = itertools.count(1)


def kind_of(name: str) -> str:
    """Return the kind of a member from the name that it was given: room.kind_number."""
    return name.partition(".")[2].rpartition("_")[0]


class ReportingMember:
    """One member of a group."""

    def __init__(self, kind: str, process: JavaProcess, name: str, topics: Sequence[str]) -> None:
        self.kind, self.name = kind, name
        self.process = process
        self.reported_ms = 0.0
        """When it was told to join."""
        self._topics = frozenset(topics)
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Its client id, as it tells it."""
        if self._id is None:
            events = self.process.wait(
                self.name, "queues", lambda reported: any(each["id"] for each in reported), _JOIN_SECONDS
            )
            self._id = str(next(each["id"] for each in events if each["id"]))
        return self._id

    def join(self, name_server: str, group: str, allocate: Mapping[str, object], **words: object) -> None:
        """Join a group, from the first message on, and be watched."""
        self.reported_ms = time.time() * 1000
        subscriptions = [(topic, "TAG", "*") for topic in sorted(self._topics)]
        reported = {"name_server": name_server, "group": group, "allocate": allocate, "subscriptions": subscriptions}
        instance = {} if self.kind in (GO, OURS) else {"instanceName": self.name}
        settings = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", **instance}
        answer = self.process.ask("push", name=self.name, watched=True, settings=settings, **reported, **words)
        # Go's client tells its id to nobody; it is heard of with the first report.
        self._id = None if self.kind == GO else str(answer)

    def held(self) -> Held:
        """Return what it holds by its last report."""
        reports = self.reports()
        return reports[-1][1] if reports else frozenset()

    def reports(self, since_ms: float = 0) -> list[tuple[int, Held]]:
        """Return what it reported since a time: when, and what it held from then on; repeats are left out."""
        found: list[tuple[int, Held]] = []
        before: Held = frozenset()
        for each in self.process.events(self.name, "queues"):
            queues = (Queue(*queue) for queue in each["queues"])
            held = frozenset(queue for queue in queues if queue.topic in self._topics)
            if held != before:
                before = held
                found.append((int(each["at_ms"]), held))
        return [report for report in found if report[0] >= since_ms]

    def leave(self) -> None:
        """Go as one goes: what it holds is handed over. Returns at once where the other end can do that."""
        self.process.ask("push-stop", name=self.name, later=True)

    def kill(self) -> None:
        """End its process as a crash does."""
        self.process.kill()

    def freeze(self) -> None:
        """Let its process hang: connections stay open, nothing is said."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.process.pid, signal.SIGCONT)


class MemberFleet:
    """The processes that members live in, started before they are needed and ended together."""

    def __init__(self) -> None:
        self._processes = ExitStack()
        self._idle: dict[str, list[JavaProcess]] = {}

    def ready(self, kind: str, count: int = 1) -> None:
        """Start processes until so many of a kind wait."""
        idle = self._idle.setdefault(kind, [])
        while len(idle) < count:
            process = self._processes.enter_context(_running(kind))
            process.ask("ready")
            idle.append(process)

    def member(self, kind: str, topics: Sequence[str], *, machine_room: str = "east") -> ReportingMember:
        """Take a process for a member that is about to join."""
        self.ready(kind)
        process = self._idle[kind].pop(0)
        return ReportingMember(kind, process, f"{machine_room}.{kind}_{next(_numbers)}", topics)

    def give_back(self, member: ReportingMember) -> None:
        """Let somebody else live in the process of a member that left."""
        self._idle.setdefault(member.kind, []).append(member.process)

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        self._processes.close()


def _running(kind: str) -> AbstractContextManager[JavaProcess]:
    if kind in JAVA:
        return running_client(kind.removeprefix("java-"))
    if kind == GO:
        return running_guest(golang.GO, golang.command())
    return running_guest("our client", [sys.executable, "-m", "tests.interop.mixed.our_member"], PYTHONPATH=str(_ROOT))
