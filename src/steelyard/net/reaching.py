"""Why a server cannot be reached, in words: errors of the system become one of ours.

Left out: what ends a line that was open; whoever has the line tells that.
"""

import os

from steelyard.errors import CannotConnect

__all__ = ["reason", "unreachable"]

_NAMES_ANOTHER = (62, 64)
"""What OpenSSL calls a certificate that is for another host, by name and by number."""


def unreachable(address: str, timeout_ms: int, error: Exception) -> CannotConnect:
    """Make the error of a line that could not be opened.

    >>> print(unreachable("10.0.0.7:9876", 3_000, TimeoutError()).what)
    10.0.0.7:9876 did not answer in 3000 ms
    >>> print(unreachable("10.0.0.7:9876", 3_000, ConnectionRefusedError(111, "Connection refused")).what)
    10.0.0.7:9876 cannot be reached (connection refused)
    """
    if isinstance(error, TimeoutError) and error.errno is None:
        return CannotConnect(f"{address} did not answer in {timeout_ms} ms")
    distrust = getattr(error, "verify_message", None)
    if distrust:
        names_another = getattr(error, "verify_code", 0) in _NAMES_ANOTHER
        return CannotConnect(
            f"{address} has a certificate that cannot be trusted ({distrust.rstrip('.')})",
            next_step="dial it by the name in its certificate, or have one made for this address"
            if names_another
            else "give the file of its authority: tls='/path/to/ca.pem'",
        )
    if getattr(error, "library", None) or isinstance(error, ConnectionResetError):
        return CannotConnect(
            f"{address} ended the line before it was ready ({reason(error)})",
            next_step="does it encrypt? tls must be on if it does and off if not; it may also want a certificate",
        )
    return CannotConnect(f"{address} cannot be reached ({reason(error)})")


def reason(error: Exception) -> str:
    """Say in a few words what the system said.

    >>> reason(BrokenPipeError(32, "Broken pipe")), reason(OSError())
    ('broken pipe', 'OSError')
    >>> reason(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9876)"))
    'connection refused'
    """
    said = getattr(error, "strerror", None) or str(error)
    if said.startswith("Connect call failed") and isinstance(error, OSError) and error.errno is not None:
        # asyncio's own loop puts the address where the system's word was.
        said = os.strerror(error.errno)
    return said.lower() or type(error).__name__
