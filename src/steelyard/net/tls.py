"""Encrypted lines: what `tls=` means.

    tls=True                                     the authorities that this machine trusts
    tls="/etc/mq/ca.pem"                         your own: a file of them, or a directory
    tls=Tls(certificate="shop.pem")              and show who we are, where the server wants to know
    tls=Tls(verify=False)                        encrypt, but believe anybody: spelled out, because it is a hole
    tls=my_context                               whatever you have made yourself

The certificate must be of a trusted authority and name the host that was dialled. Brokers are dialled by the address
that their route has, mostly a number, so their certificates must name that. Servers of Apache that were given no
certificate make one themselves that names nobody: for those there is only `Tls(verify=False)`.

Left out: why a handshake failed (net/reaching.py), and TLS on our own servers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

__all__ = ["Tls", "tls_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How lines are encrypted, where True or a file is not enough.

    >>> Tls(certificate="shop.pem", key="shop-key.pem", password="8F!x")
    Tls(ca=None, verify=True, certificate='shop.pem', key='shop-key.pem')
    >>> Tls(ca="ca.pem", verify=False)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: an authority to trust is given, and not to look at it; leave one of them out
    """

    ca: str | Path | None = None
    """The authorities to trust, a file or a directory; without it those that this machine trusts."""
    verify: bool = True
    """Whether the server has to prove who it is. Without that anybody on the way can read and change everything."""
    certificate: str | Path | None = None
    """Our own certificate, for servers that ask for one; the file may hold its key too."""
    key: str | Path | None = None
    """The certificate's key, if it is in a file of its own."""
    password: str | None = field(default=None, repr=False)
    """What the key is locked with."""

    def __post_init__(self) -> None:
        if self.ca is not None and not self.verify:
            raise ConfigurationError(
                "an authority to trust is given, and not to look at it", next_step="leave one of them out"
            )
        for name in ("key", "password"):
            if getattr(self, name) is not None and self.certificate is None:
                raise ConfigurationError(
                    f"the {name} of a certificate is given without the certificate", next_step="give certificate too"
                )


def tls_context(tls: "bool | str | Path | Tls | ssl.SSLContext | None") -> "ssl.SSLContext | None":
    """Make what lines are encrypted with; None if they are not.

    >>> tls_context(False) is None
    True
    >>> tls_context("/nowhere/ca.pem")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: there is no file /nowhere/ca.pem; check the path
    """
    if tls is None or tls is False:
        return None
    # Here and not above: whoever only says how needs none of it, and it takes a while to load.
    import ssl

    if isinstance(tls, ssl.SSLContext):
        return tls
    wanted = _wanted(tls)
    if wanted.verify:
        context = _careful(wanted.ca)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if wanted.certificate is not None:
        _show(context, wanted.certificate, wanted)
    return context


def _wanted(tls: object) -> Tls:
    if tls is True:
        return Tls()
    if isinstance(tls, str | Path) and str(tls):
        return Tls(ca=tls)
    if isinstance(tls, Tls):
        return tls
    raise ConfigurationError(
        f"tls is {tls!r}", next_step="give True, the file of an authority, Tls(...) or an ssl.SSLContext"
    )


def _careful(ca: str | Path | None) -> "ssl.SSLContext":
    """Make a context that trusts these authorities and no other, or without them what this machine trusts."""
    import ssl

    if ca is None:
        return ssl.create_default_context()
    path = Path(ca)
    with _explained("holds no certificates", path):
        return ssl.create_default_context(capath=path) if path.is_dir() else ssl.create_default_context(cafile=path)


def _show(context: "ssl.SSLContext", certificate: str | Path, wanted: Tls) -> None:
    files = [Path(each) for each in (certificate, wanted.key) if each is not None]
    with _explained("does not fit its key, or the key its password", *files):
        # Without a password the library would ask for one on the terminal.
        context.load_cert_chain(certificate, wanted.key, wanted.password or "")


@contextmanager
def _explained(wrong: str, *files: Path) -> Iterator[None]:
    """Say in words why files cannot be used; the first one is named, or the one that is missing."""
    import ssl

    try:
        for file in files:
            file.stat()  # the library does not say which one it missed
        yield
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file {error.filename}", next_step="check the path") from None
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{files[0]} {wrong} ({error.reason or error})", next_step="give files in PEM format"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{files[0]} cannot be read ({error})", next_step="check the path") from None
