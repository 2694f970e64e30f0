"""Where trouble is made: two brokers and a name server, each a process that can be killed, halted and slowed.

`Ground` is what every such place can do, whoever's servers run there; `our_ground` has our own. What the brokers store
is on disk, so that a broker that is killed comes back with all that it promised.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.serve.embedded import Cluster
from tests.client.proxy import Detour, detour


class Server(Protocol):
    """A process that serves."""

    @property
    def pid(self) -> int:
        """Its process."""

    def kill(self) -> None:
        """End it as a crash does."""

    def start(self) -> None:
        """Start it again where it was, and wait until it can be used."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster of processes."""

    name_servers: tuple[str, ...]
    """Clients use the first one while they can."""
    brokers: dict[str, str]
    """The addresses, by name."""
    servers: dict[str, Server]
    """The brokers' processes, by name, and that of the first name server, by its address."""

    @property
    def namesrv(self) -> str:
        """What clients are given."""
        return ";".join(self.name_servers)

    @contextmanager
    def halted(self, broker: str) -> Iterator[None]:
        """Halt a broker: it is there, the system takes connections for it, and nothing is answered."""
        pid = self.servers[broker].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def killed(self, server: str) -> Iterator[None]:
        """Kill a broker, or a name server; at the end it is started again."""
        self.servers[server].kill()
        try:
            yield
        finally:
            self.servers[server].start()


@dataclass(frozen=True, slots=True)
class _Place:
    namesrv: str
    brokers: dict[str, str]


@contextmanager
def detour_of(ground: Ground) -> Iterator[Detour]:
    """Put proxies before the brokers, for those clients that ask the proxy of a name server."""
    with detour(_Place(ground.name_servers[-1], ground.brokers)) as around:
        yield around


class _OurServer:
    """`steelyard up` as a process."""

    def __init__(self, options: Sequence[str], log: Path) -> None:
        self._options, self._log = options, log
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it where it was, and wait until it can be used."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Start it, where it was if it was somewhere."""
        command = [sys.executable, "-m", "steelyard", "up", "--json", "--port", str(self._port), *self._options]
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_ready(self) -> str:
        """Wait until it can be used, and return its address."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"a server did not start: {self._log.read_text()[-2000:]}"
        ready = json.loads(line)
        address: str = next(iter(ready["brokers"].values()), ready["namesrv"])
        self._port = int(address.rpartition(":")[2])
        return address

    def kill(self) -> None:
        """End it as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


@contextmanager
def our_ground(folder: Path, brokers: Sequence[str] = ("broker-a", "broker-b")) -> Iterator[Ground]:
    """Run our servers, and kill what is left of them at the end."""
    begun: list[_OurServer] = []

    def begin(name: str, *options: str) -> _OurServer:
        server = _OurServer(options, folder / f"{name}.log")
        begun.append(server)
        server.begin()
        return server

    second = Cluster(brokers=0)  # in this process: nobody does anything to it
    try:
        second.start()
        first = begin("names", "--namesrv-only", "--memory")
        name_servers = first.wait_until_ready(), second.namesrv
        join = ("--join", ";".join(name_servers))
        found = {name: begin(name, *join, "--broker-name", name, "--data", str(folder / name)) for name in brokers}
        addresses = {name: server.wait_until_ready() for name, server in found.items()}
        yield Ground(name_servers, addresses, {**found, name_servers[0]: first})
    finally:
        for server in begun:
            server.kill()
        second.stop()


@contextmanager
def one_more(ground: Ground, folder: Path, name: str) -> Iterator[Server]:
    """Run one more broker of ours beside those of a ground."""
    options = ("--join", ground.namesrv, "--broker-name", name, "--data", str(folder / name))
    server = _OurServer(options, folder / f"{name}.log")
    try:
        server.start()
        yield server
    finally:
        server.kill()
