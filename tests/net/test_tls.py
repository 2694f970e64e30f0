"""TLS trusts only what it is configured to trust, and says in words what is wrong.

The certificates beside this file are good until 2120, and their keys guard nothing but these tests: `authority.pem` has
signed `server.pem` (localhost), `elsewhere.pem` (another host) and `client.pem`; `untrusted.pem` has signed nobody.
"""

import asyncio
import ssl
from pathlib import Path

import pytest

from steelyard.errors import CannotConnect, ConfigurationError
from steelyard.net.connect_errors import connect_error
from steelyard.net.tls import Tls, tls_context

FILES = Path(__file__).parent / "certificates"
AUTHORITY = FILES / "authority.pem"

Wanted = bool | str | Path | Tls | ssl.SSLContext | None


def answers(tls: Wanted, *, shown: str | None = "server.pem", wants_certificate: bool = False) -> str:
    """Say hello to a server and return what it answers: who it takes us for. It shows a certificate, or is plain."""
    return asyncio.run(_answers(tls_context(tls), shown, wants_certificate))


async def _answers(context: ssl.SSLContext | None, shown: str | None, wants_certificate: bool) -> str:
    serving = None
    if shown is not None:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(FILES / shown)
        if wants_certificate:
            serving.verify_mode = ssl.CERT_REQUIRED
            serving.load_verify_locations(AUTHORITY)
    server = await asyncio.start_server(_greet, "127.0.0.1", 0, ssl=serving)
    async with server:
        port = server.sockets[0].getsockname()[1]
        try:
            host = "127.0.0.1" if context is not None else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
        except OSError as error:
            raise connect_error("127.0.0.1:10911", 3_000, error) from None
        try:
            writer.write(b"hello\n")
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if (await reader.readline()).startswith(b"hello"):
        shown = (writer.get_extra_info("peercert") or {}).get("subject", ((("commonName", "anybody"),),))
        writer.write(f"{shown[0][0][1]}\n".encode())
    writer.close()


def test_without_tls_there_is_no_context() -> None:
    assert tls_context(False) is None
    assert tls_context(None) is None
    assert answers(False, shown=None) == "anybody"


@pytest.mark.parametrize("tls", [AUTHORITY, str(AUTHORITY), Tls(ca=AUTHORITY)])
def test_a_server_of_the_named_authority_is_believed(tls: Wanted) -> None:
    assert answers(tls) == "anybody"


def test_a_context_of_ones_own_is_used_as_it_is() -> None:
    own = ssl.create_default_context(cafile=AUTHORITY)
    assert tls_context(own) is own
    assert answers(own) == "anybody"


@pytest.mark.parametrize("tls", [True, FILES / "untrusted.pem"])
def test_an_untrusted_server_is_refused(tls: Wanted) -> None:
    with pytest.raises(CannotConnect, match="certificate that cannot be trusted") as caught:
        answers(tls)
    assert "give the CA file" in str(caught.value)


def test_a_certificate_for_another_host_is_refused() -> None:
    with pytest.raises(CannotConnect, match=r"127\.0\.0\.1") as caught:
        answers(AUTHORITY, shown="elsewhere.pem")
    assert "connect to the name in its certificate" in str(caught.value)


def test_verification_is_off_only_if_that_is_spelled_out() -> None:
    assert answers(Tls(verify=False), shown="elsewhere.pem") == "anybody"
    careful = tls_context(True)
    assert careful is not None
    assert careful.verify_mode is ssl.CERT_REQUIRED
    assert careful.check_hostname


@pytest.mark.parametrize(("key", "password"), [("client-key.pem", None), ("client-key-locked.pem", "open-sesame")])
def test_a_client_certificate_is_presented(key: str, password: str | None) -> None:
    tls = Tls(ca=AUTHORITY, certificate=FILES / "client.pem", key=FILES / key, password=password)
    assert answers(tls, wants_certificate=True) == "shop"


def test_a_plain_server_differs_from_one_that_is_not_there() -> None:
    with pytest.raises(CannotConnect, match="closed the connection during the handshake") as caught:
        answers(AUTHORITY, shown=None)
    assert "off if not" in str(caught.value)


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        ("/nowhere/ca.pem", "there is no file /nowhere/ca.pem"),
        (FILES / "client-key.pem", "client-key.pem holds no certificates"),
        (Tls(certificate="/nowhere/shop.pem"), "there is no file /nowhere/shop.pem"),
        (Tls(certificate=FILES / "client.pem", key="/nowhere/key.pem"), "there is no file /nowhere/key.pem"),
        (Tls(certificate=FILES / "client.pem"), "client.pem does not fit its key"),
        (Tls(certificate=FILES / "client.pem", key=FILES / "server.pem"), "client.pem does not fit its key"),
        (Tls(certificate=FILES / "client.pem", key=FILES / "client-key-locked.pem"), "or the key its password"),
        ("", "tls is ''"),
    ],
)
def test_files_that_cannot_be_used_are_named(tls: Wanted, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        tls_context(tls)


def test_a_password_is_not_shown() -> None:
    assert "sesame" not in repr(Tls(certificate="c.pem", key="k.pem", password="open-sesame"))


def test_wishes_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="ca is given, and verify is off"):
        Tls(ca=AUTHORITY, verify=False)
    with pytest.raises(ConfigurationError, match="give certificate too"):
        Tls(key="k.pem")
    with pytest.raises(ConfigurationError, match="give certificate too"):
        Tls(password="p")
