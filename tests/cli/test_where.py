"""The options that say where the cluster is: how lines are encrypted, and whom they believe."""

import asyncio
import queue
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.where import Where
from steelyard.cli.main import main
from steelyard.errors import ConfigurationError
from steelyard.serve.embedded import Cluster

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
        assert main(["topic", "ls", *careful, *at]) == Exit.UNREACHABLE
        assert "certificate that cannot be trusted" in capsys.readouterr().err


def test_an_authority_is_not_given_to_be_overlooked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "ls", "--tls-no-verify", "--tls-ca", "ca.pem"]) == Exit.USAGE
    assert capsys.readouterr().err == (
        "steelyard: an authority to trust is given, and not to look at it; leave one of them out\n"
    )


def test_an_address_that_is_empty_is_not_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "near:1")
    with pytest.raises(ConfigurationError, match="--namesrv is empty"):
        Where(namesrv=[""]).connect()
