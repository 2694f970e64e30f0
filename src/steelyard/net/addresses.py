"""Addresses as users write them: ``host:port``, several with ``;`` between them."""

from steelyard.errors import ConfigurationError

_EXAMPLE = "write host:port, and ; between several"
_PORT_DIGITS = 5


def parse_addresses(text: str) -> tuple[str, ...]:
    """Parse a list of addresses, without duplicates.

    >>> parse_addresses("127.0.0.1:9876; [::1]:9876;")
    ('127.0.0.1:9876', '[::1]:9876')
    """
    found = dict.fromkeys(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    if not found:
        raise ConfigurationError(f"{text!r} names no address", next_step=_EXAMPLE)
    for each in found:
        parse_address(each)
    return tuple(found)


def parse_address(text: str) -> tuple[str, int]:
    """Parse one address.

    >>> parse_address("[::1]:9876"), parse_address("localhost:9876")
    (('::1', 9876), ('localhost', 9876))
    >>> parse_address("localhost")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: 'localhost' is not an address; write host:port, and ; between several
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_host = bare.isprintable() and not any(letter.isspace() for letter in bare)
    is_port = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS and 0 < int(port) < 65_536
    if not bare or not is_host or not is_port:
        raise ConfigurationError(f"{text!r} is not an address", next_step=_EXAMPLE)
    return bare, int(port)
