"""Why a connection cannot be opened: errors of the system and of TLS become `CannotConnect`."""

import os
import re
from errno import EHOSTDOWN, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT
from socket import gaierror

from steelyard.errors import CannotConnect

_HOST_MISMATCH_CODES = (62, 64)
"""OpenSSL's codes for a certificate of another host, by name and by address."""
_NO_ANSWER_ADVICE = "check that the host runs, and that no firewall drops what is sent to this port"
_ADVICE = {
    **dict.fromkeys((EHOSTDOWN, EHOSTUNREACH, ENETUNREACH), "check the address of the host, and the network to it"),
    ETIMEDOUT: _NO_ANSWER_ADVICE,
}
"""What to do about an error of the system, by its number; of others the address is to be checked, and the server."""
_NUMBER = re.compile(r"\[Errno (\d+)\]")


def connect_error(address: str, timeout_ms: int, error: Exception) -> CannotConnect:
    """Make the error of a connection that could not be opened.

    >>> print(connect_error("10.0.0.7:9876", 3_000, TimeoutError()).what)
    10.0.0.7:9876 did not answer in 3000 ms
    >>> print(connect_error("10.0.0.7:9876", 3_000, ConnectionRefusedError(111, "Connection refused")).what)
    10.0.0.7:9876 cannot be reached (connection refused)
    """
    if isinstance(error, TimeoutError) and error.errno is None:
        return CannotConnect(f"{address} did not answer in {timeout_ms} ms", next_step=_NO_ANSWER_ADVICE)
    distrust = getattr(error, "verify_message", None)
    if distrust:
        names_another = getattr(error, "verify_code", 0) in _HOST_MISMATCH_CODES
        return CannotConnect(
            f"{address} has a certificate that cannot be trusted ({distrust.rstrip('.')})",
            next_step="connect to the name in its certificate, or issue one for this address"
            if names_another
            else "give the CA file: tls='/path/to/ca.pem'",
        )
    if getattr(error, "library", None) or isinstance(error, ConnectionResetError):
        return CannotConnect(
            f"{address} closed the connection during the handshake ({describe_error(error)})",
            next_step="tls must be on if the server uses TLS, and off if not; it may also require a client certificate",
        )
    number = _error_number(error)
    advice = "check the name of the host" if isinstance(error, gaierror) else _ADVICE.get(number or 0)
    made = CannotConnect(f"{address} cannot be reached ({describe_error(error)})", next_step=advice)
    made.errno = number
    return made


def _error_number(error: Exception) -> int | None:
    """Return the system's number of an error; asyncio has the errors of several addresses in one text.

    >>> _error_number(OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed"))
    111
    """
    if not isinstance(error, OSError) or error.errno is not None:
        return getattr(error, "errno", None)
    numbers = set(_NUMBER.findall(str(error)))
    return int(numbers.pop()) if len(numbers) == 1 else None


def describe_error(error: Exception) -> str:
    """Describe an error of the system in a few words.

    >>> describe_error(BrokenPipeError(32, "Broken pipe")), describe_error(OSError())
    ('broken pipe', 'OSError')
    >>> describe_error(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9876)"))
    'connection refused'
    """
    said = getattr(error, "strerror", None) or str(error)
    number = _error_number(error)
    if number is not None and "Connect call failed" in said:
        # asyncio's own loop replaces the system's text by the address.
        said = os.strerror(number)
    return said.lower() or type(error).__name__
