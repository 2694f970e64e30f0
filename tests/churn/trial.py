"""A group of our members that churns while messages flow: joins, goodbyes and kills by plan.

A member is a process, so that a kill is a kill; where nobody is killed, it may live in this one, which costs less.
Steps are tied to the flow and not to a clock: the first of ten is taken when a tenth of the messages is sent.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from steelyard import Rebalanced
from tests.churn.handler_log import HandlerRun, read_logs
from tests.churn.member import Orders, working
from tests.churn.steady_producer import SteadyProducer

_ROOT = Path(__file__).parents[2]
_JOIN_SECONDS = 60
_LEAVE_SECONDS = 90


class Member(Protocol):
    """What handles messages."""

    log: Path
    killed_ns: int | None
    """When it was killed, if it was."""

    @property
    def runs(self) -> bool:
        """Whether it is there."""

    def wait_joined(self) -> None:
        """Wait until it holds a queue."""

    def leave(self) -> None:
        """Stop it, and wait until it has ended."""

    def kill(self) -> None:
        """End it without a goodbye."""

    def output(self) -> str:
        """Return the end of its output."""


class LocalMember:
    """A member in this process; nothing can end it as a crash does."""

    def __init__(self, orders: Orders) -> None:
        self.log = Path(orders.log)
        self.killed_ns: int | None = None
        self._joined = threading.Event()
        self._last: Rebalanced | None = None
        self.runs = True
        self._consumer = working(orders, self._rebalanced).start()

    def _rebalanced(self, moved: Rebalanced) -> None:
        self._last = moved
        if moved.queues:
            self._joined.set()

    def wait_joined(self) -> None:
        """Wait until it holds a queue."""
        assert self._joined.wait(_JOIN_SECONDS), f"{self.log.stem} got no queue: {self.output()}"

    def leave(self) -> None:
        """Stop it, and wait until it has ended."""
        self.runs = False
        self._consumer.stop()

    def kill(self) -> None:
        """Drop what runs."""
        self._consumer.interrupt()
        self._consumer.interrupt()
        self.leave()

    def output(self) -> str:
        """Return the last move."""
        return str(self._last)


class ChurnMember:
    """A process that handles messages."""

    def __init__(self, orders: Orders) -> None:
        self.log = Path(orders.log)
        self.killed_ns: int | None = None
        self._output: list[str] = []
        self._joined = threading.Event()
        command = [sys.executable, "-m", "tests.churn.member", msgspec.json.encode(orders).decode()]
        environment = os.environ | {"PYTHONPATH": str(_ROOT)}
        with self.log.with_suffix(".err").open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_joined(self) -> None:
        """Wait until it holds a queue."""
        assert self._joined.wait(_JOIN_SECONDS), f"{self.log.stem} got no queue: {self.output()}"

    def leave(self) -> None:
        """Stop it, and wait until it has ended."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(_LEAVE_SECONDS)
        self._reader.join()
        assert code == 0, f"{self.log.stem} ended with {code}: {self.output()}"

    def kill(self) -> None:
        """End it as a crash does."""
        self.killed_ns = time.monotonic_ns()
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return the end of its output."""
        return "\n".join([*self._output[-5:], self.log.with_suffix(".err").read_text(errors="replace")[-3000:]])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._output.append(line.decode().strip())
                if json.loads(line)["queues"]:
                    self._joined.set()


class Trial:
    """Members of one group, and the messages that flow to them."""

    def __init__(
        self, flow: SteadyProducer, orders: Orders, folder: Path, member: Callable[[Orders], Member] = ChurnMember
    ) -> None:
        self.flow = flow
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self._orders, self._folder, self._member = orders, folder, member
        self._numbers = itertools.count(1)

    def join(self) -> None:
        """Start one more, and wait until it has a share."""
        log = self._folder / f"member-{next(self._numbers):02}.log"
        member = self._member(msgspec.structs.replace(self._orders, log=str(log)))
        self.members.append(member)
        member.wait_joined()

    def leave(self) -> None:
        """Let the oldest go."""
        member = self.members.pop(0)
        self.gone.append(member)
        member.leave()

    def kill(self) -> None:
        """Let the oldest crash."""
        member = self.members.pop(0)
        self.gone.append(member)
        member.kill()

    def replace(self) -> None:
        """Let the oldest go, and another come."""
        self.leave()
        self.join()

    def crash(self) -> None:
        """Let the oldest crash, and another come."""
        self.kill()
        self.join()

    def run(self, steps: Sequence[Callable[[], None]], *, patience_s: float) -> list[HandlerRun]:
        """Take the steps while messages flow, wait until all are handled, and return what was done."""
        try:
            self.join()
            self.flow.start()
            for number, step in enumerate(steps, start=1):
                self.flow.wait(number / (len(steps) + 1))
                step()
            self.flow.wait()
            self._wait_for_all(patience_s)
            while self.members:
                self.leave()
        finally:
            self._end()
        return self.handlings()

    def handlings(self) -> list[HandlerRun]:
        """Return what was done so far."""
        return read_logs(sorted(self._folder.glob("member-*.log")))

    def _wait_for_all(self, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while missing := self.flow.sent - {each.uid for each in self.handlings() if each.end_ns is not None}:
            assert all(member.runs for member in self.members), "a member ended: " + self._output()
            if time.monotonic() > end:
                raise AssertionError(
                    f"{len(missing)} messages are lost, such as {sorted(missing)[:5]}: {self._output()}"
                )
            time.sleep(0.05)

    def _output(self) -> str:
        return "\n".join(f"{member.log.stem}: {member.output()}" for member in (*self.gone, *self.members))

    def _end(self) -> None:
        while self.members:
            self.kill()


def up_and_down(trial: Trial, most: int) -> list[Callable[[], None]]:
    """Return the steps from one member to so many and back."""
    return [trial.join] * (most - 1) + [trial.leave] * (most - 1)


def rolling_restart(trial: Trial, members: int) -> list[Callable[[], None]]:
    """Return the steps from one member to some more, of which each is then replaced."""
    return [trial.join] * (members - 1) + [trial.replace] * members


def crashes(trial: Trial, members: int, kills: int) -> list[Callable[[], None]]:
    """Return the steps from one member to some more, and then so many kills, each with a successor."""
    return [trial.join] * (members - 1) + [trial.crash] * kills
