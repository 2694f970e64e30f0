"""Every program in examples/ does what it says, and those that run for ever end in order when they are told to.

Those that end by themselves run in this process, which costs less.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard import Admin, ClientConfig, Message, Producer
from steelyard.client.sync.client import open_clients
from steelyard.errors import NoNameServer
from steelyard.serve.embedded import Cluster
from tests.waiting import LONGEST_S

EXAMPLES = Path(__file__).parents[2] / "examples"


class Program:
    """An example that runs."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: text for name, text in os.environ.items() if name != "NAMESRV_ADDR"},
        )
        self.lines: list[str] = []
        self.errors = ""
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as output:
            self.errors = output.read()

    def wait_for(self, enough: Callable[[list[str]], object]) -> None:
        """Wait until it has said enough."""
        end = time.monotonic() + LONGEST_S
        while not enough(self.lines):
            assert self.process.poll() is None, f"it ended: {self.lines} {self.errors}"
            assert time.monotonic() < end, f"it said only {self.lines}"
            time.sleep(0.02)

    def end(self, how: signal.Signals | None = None) -> list[str]:
        """Wait for its end, after a signal if there is one; it must be a good end without a word of complaint."""
        if how is not None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(LONGEST_S)
        finally:
            self.kill()
        assert (code, self.errors) == (0, "")
        return self.lines

    def kill(self) -> None:
        """End it, if it still runs, and hear all it said."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()


@contextmanager
def running(name: str, *arguments: str) -> Iterator[Program]:
    """Run an example for as long as the context lasts, at most."""
    program = Program(name, *arguments)
    try:
        yield program
    finally:
        program.kill()


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Run a cluster of two brokers."""
    with Cluster(brokers=2) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)
        yield cluster.namesrv


RunExample = Callable[..., list[str]]


@pytest.fixture
def output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> RunExample:
    """Give what runs an example to its end, a good one, and returns what it said; it complains as expected, at most."""

    def run(name: str, *arguments: str, complaint: str | None = None) -> list[str]:
        path = EXAMPLES / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        before = open_clients()
        runpy.run_path(str(path), run_name="__main__")
        lines, errors = capfd.readouterr()
        assert not errors
        assert [each for each in open_clients() if each not in before] == []
        assert [complaint is not None and complaint in each.getMessage() for each in caplog.records] == (
            [] if complaint is None else [True]
        )
        return lines.splitlines()

    return run


def test_send(namesrv: str, output: RunExample) -> None:
    first, *others = output("send", namesrv)
    assert first.startswith("sent to orders@broker-")
    assert others == ["one key, one queue: True", "packed into batches: 100", "many in flight: 100"]
    with Admin(namesrv) as admin:
        assert len([each for each in admin.messages.list("orders", most=500) if b'{"id": ' in each.body]) >= 204


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_receive(namesrv: str, how: signal.Signals) -> None:
    with Admin(namesrv) as admin, Producer(namesrv) as producer, running("receive", namesrv) as program:
        program.wait_for(lambda lines: any(" took " in line for line in lines))
        producer.send(Message("orders", f"paid {how.name}".encode(), tags="paid"))
        producer.send(Message("orders", b"open", tags="open"))
        program.wait_for(lambda lines: f"billed paid {how.name}" in lines)
        lines = program.end(how)
        assert lines[-1] == "left in order"
        assert "billed open" not in lines
        assert any(" released " in line for line in lines)
        assert admin.groups.members("billing") == []


@pytest.mark.process
def test_batches(namesrv: str) -> None:
    with Producer(namesrv) as producer, running("batches", namesrv) as program:
        producer.send_many(
            [Message("orders", b"x", properties={"amount": str(amount)}) for amount in (5, 11, 20)], key="one"
        )
        program.wait_for(lambda lines: sum(float(line.rpartition(" ")[2]) for line in lines) == 31)
        program.end(signal.SIGINT)


@pytest.mark.process
def test_orderly(namesrv: str) -> None:
    with running("orderly", namesrv) as program:
        program.wait_for(lambda lines: len(lines) == 9)
        lines = program.end(signal.SIGINT)
    for order in ("order-1", "order-2", "order-3"):
        assert [line.split()[1] for line in lines if line.startswith(order)] == ["created", "paid", "shipped"]


def test_broadcast(namesrv: str, tmp_path: Path, output: RunExample) -> None:
    assert sorted(output("broadcast", namesrv, str(tmp_path))) == ["left forgets sku-1", "right forgets sku-1"]


def test_transaction(namesrv: str, output: RunExample) -> None:
    assert output("transaction", namesrv) == ["rolled back: no such account", "to be seen: ['kept']"]


def test_request_reply(namesrv: str, output: RunExample) -> None:
    assert output("request_reply", namesrv) == ["sku-1 costs 9.90", "sku-2 costs 12.00"]


def test_pull(namesrv: str, output: RunExample) -> None:
    *lines, last = output("pull", namesrv)
    assert sorted(lines) == [f"visitor {number}" for number in range(10)]
    assert last == "at the end: True"


def test_later(namesrv: str, output: RunExample) -> None:
    lines = output("later", namesrv, complaint="post raised ValueError")
    assert lines == ["dead letters: ['impossible']", "later, please", "posted at attempt 2"]


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_asyncio_shop(namesrv: str, how: signal.Signals) -> None:
    with running("asyncio_shop", namesrv) as program:
        program.wait_for(lambda lines: len(lines) == 5)
        assert sorted(program.end(how)) == [f"billed order-{number}" for number in range(5)]


def test_a_program_without_a_cluster_says_what_is_wrong(output: RunExample, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = ClientConfig.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "timeout_s", 0.2)
    with pytest.raises(NoNameServer, match=r"no name server of 127\.0\.0\.1:1 was reached"):
        output("receive", "127.0.0.1:1")


def test_every_example_is_tried() -> None:
    tried = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.stem}", namesrv' not in tried] == []
