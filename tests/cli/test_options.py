"""Shared options: TLS and certificates, confirmation at a terminal or by --yes, and checks before connecting."""

import asyncio
import io
import queue
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.exceptions import Exit

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import ClientOptions, confirm
from steelyard.errors import ConfigurationError
from steelyard.serve.embedded import Cluster
from tests.cli.processes import run_process
from tests.docs.command_tree import verbs

_CERTIFICATES = Path(__file__).parent.parent / "net" / "certificates"


@pytest.fixture(scope="module")
def encrypted() -> Iterator[str]:
    """Run an encrypted name server that knows of no broker, and give its address."""
    with Cluster(brokers=0) as cluster, _encrypted(cluster.namesrv) as address:
        yield address


@contextmanager
def _encrypted(address: str) -> Iterator[str]:
    """Stand before a plain server with a certificate that names another host; give the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_CERTIFICATES / "elsewhere.pem")
    host, _, port = address.rpartition(":")
    places: queue.SimpleQueue[str] = queue.SimpleQueue()
    loop = asyncio.new_event_loop()
    is_over = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async def stand() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            places.put(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await is_over.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(stand())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield places.get(timeout=20)
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()


def test_a_server_that_cannot_prove_who_it_is_is_believed_only_if_that_is_spelled_out(
    encrypted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--namesrv", encrypted, "--timeout", "10"]
    assert main(["topic", "ls", "--tls-no-verify", *at]) == 0
    assert capsys.readouterr().out.split()[0] == "topic"
    assert main(["topic", "ls", "--tls", "--tls-no-verify", *at]) == 0
    capsys.readouterr()
    at = ["--namesrv", encrypted, "--timeout", "1"]
    for careful in (["--tls"], ["--tls-ca", str(_CERTIFICATES / "authority.pem")]):
        assert main(["topic", "ls", *careful, *at]) == ExitCode.UNREACHABLE
        assert "certificate that cannot be trusted" in capsys.readouterr().err


def test_an_authority_is_not_given_to_be_overlooked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "ls", "--tls-no-verify", "--tls-ca", "ca.pem"]) == ExitCode.USAGE
    assert capsys.readouterr().err == ("steelyard: ca is given, and verify is off; leave one of them out\n")


def test_an_address_that_is_empty_is_not_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "near:1")
    with pytest.raises(ConfigurationError, match="--namesrv is empty"):
        ClientOptions(namesrv=[""]).config()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be a terminal."""
        return True


def test_without_a_terminal_no_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(ConfigurationError, match="3 messages would be gone; if that is wanted, add --yes"):
        confirm("3 messages would be gone", yes=False)
    confirm("3 messages would be gone", yes=True)


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y\n", True), ("YES\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_at_a_terminal_only_yes_goes_on(answer: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    output = _Terminal()
    monkeypatch.setattr(sys, "stdin", _Terminal(answer))
    monkeypatch.setattr(sys, "stderr", output)
    if goes_on:
        confirm("3 messages would be gone", yes=False)
    else:
        with pytest.raises(Exit) as left:
            confirm("3 messages would be gone", yes=False)
        assert left.value.exit_code == 1
        assert output.getvalue().endswith("nothing was changed\n")
    assert output.getvalue().startswith("3 messages would be gone. Continue? [y/N] ")


def test_json_may_be_asked_for_in_both_ways_wherever_it_may_be_asked_for() -> None:
    for words, command in verbs():
        names = {name for parameter in command.params for name in parameter.opts}
        assert ("--json" in names) == ("--output" in names), " ".join(words)


@pytest.mark.process
@pytest.mark.parametrize(("words", "in_text"), [((), b"@"), (("--json",), b"{"), (("-o", "json"), b"{")])
def test_output_json_is_json_for_a_stream_too(words: tuple[str, ...], in_text: bytes) -> None:
    with Cluster() as cluster:
        send = ("--body", "a", "--body", "b", "--key", "one-queue")
        assert run_process(cluster.namesrv, "send", "orders", *send).returncode == 0
        done = run_process(cluster.namesrv, "consume", "orders", "--from", "first", "--exit-at-end", *words)
    assert (done.returncode, [in_text in line for line in done.stdout.splitlines()]) == (0, [True, True])


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "set", "orders"],
        ["topic", "order", "orders", "--fix", "all", "--clear"],
        ["message", "show"],
        ["broker", "config", "set", "broker-a", "no-value"],
        ["offset", "reset", "billing", "--to", "noon"],
        ["access", "policy", "create", "shop", "--on", "nothing", "--may", "pub"],
        ["dead-letters", "resend", "billing"],
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_reported_before_anything_is_connected(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--namesrv", "127.0.0.1:1", "--timeout", "0.2"]) == ExitCode.USAGE
    assert "127.0.0.1:1" not in capsys.readouterr().err
