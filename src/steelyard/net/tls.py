"""TLS: what `tls=` means.

    tls=True                                     trust the CAs of this machine
    tls="/etc/mq/ca.pem"                         trust your own CAs: a file, or a directory
    tls=Tls(certificate="shop.pem")              present a client certificate (mutual TLS)
    tls=Tls(verify=False)                        encrypt without verifying the server: insecure
    tls=my_context                               an `ssl.SSLContext` of your own

The certificate must be signed by a trusted CA and name the host that we connect to. For brokers that is the address of
their route, mostly a number. Apache servers without a certificate make one themselves that names no host: they need
`Tls(verify=False)`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings, where True or a file is not enough.

    >>> Tls(certificate="shop.pem", key="shop-key.pem", password="8F!x")
    Tls(ca=None, verify=True, certificate='shop.pem', key='shop-key.pem')
    >>> Tls(ca="ca.pem", verify=False)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: ca is given, and verify is off; leave one of them out
    """

    ca: str | Path | None = None
    """The CAs to trust, a file or a directory; without it those that this machine trusts."""
    verify: bool = True
    """Whether to verify the server's certificate. Without that, anyone on the way can read and change everything."""
    certificate: str | Path | None = None
    """Our own certificate, for servers that require one; the file may hold its key too."""
    key: str | Path | None = None
    """The certificate's key, if it is in a file of its own."""
    password: str | None = field(default=None, repr=False)
    """The password of the key."""

    def __post_init__(self) -> None:
        if self.ca is not None and not self.verify:
            raise ConfigurationError("ca is given, and verify is off", next_step="leave one of them out")
        for name in ("key", "password"):
            if getattr(self, name) is not None and self.certificate is None:
                raise ConfigurationError(
                    f"the {name} of a certificate is given without the certificate", next_step="give certificate too"
                )


def tls_context(tls: "bool | str | Path | Tls | ssl.SSLContext | None") -> "ssl.SSLContext | None":
    """Make the context of connections; None without TLS.

    >>> tls_context(False) is None
    True
    >>> tls_context("/nowhere/ca.pem")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: there is no file /nowhere/ca.pem; check the path
    """
    if tls is None or tls is False:
        return None
    # Here and not above: it is slow to load, and settings alone do not need it.
    import ssl

    if isinstance(tls, ssl.SSLContext):
        return tls
    wanted = _parse_tls(tls)
    if wanted.verify:
        context = _verifying_context(wanted.ca)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if wanted.certificate is not None:
        _load_certificate(context, wanted.certificate, wanted)
    return context


def _parse_tls(tls: object) -> Tls:
    if tls is True:
        return Tls()
    if isinstance(tls, str | Path) and str(tls):
        return Tls(ca=tls)
    if isinstance(tls, Tls):
        return tls
    raise ConfigurationError(f"tls is {tls!r}", next_step="give True, a CA file, Tls(...) or an ssl.SSLContext")


def _verifying_context(ca: str | Path | None) -> "ssl.SSLContext":
    """Make a context that trusts these CAs only, or without them those of this machine."""
    import ssl

    if ca is None:
        return ssl.create_default_context()
    path = Path(ca)
    with _explain_file_errors("holds no certificates", path):
        return ssl.create_default_context(capath=path) if path.is_dir() else ssl.create_default_context(cafile=path)


def _load_certificate(context: "ssl.SSLContext", certificate: str | Path, tls: Tls) -> None:
    files = [Path(each) for each in (certificate, tls.key) if each is not None]
    with _explain_file_errors("does not fit its key, or the key its password", *files):
        # Without a password the library would ask for one on the terminal.
        context.load_cert_chain(certificate, tls.key, tls.password or "")


@contextmanager
def _explain_file_errors(wrong: str, *files: Path) -> Iterator[None]:
    """Raise ConfigurationError if files cannot be used; it names the first, or the one that is missing."""
    import ssl

    try:
        for file in files:
            file.stat()  # OpenSSL does not say which one is missing
        yield
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file {error.filename}", next_step="check the path") from None
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{files[0]} {wrong} ({error.reason or error})", next_step="give files in PEM format"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{files[0]} cannot be read ({error})", next_step="check the path") from None
