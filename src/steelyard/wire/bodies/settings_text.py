"""Settings as text, one ``name=value`` a line: the bodies of requests that read or change a server's configuration.

Read as Java writes them: blank lines and comments are skipped, blanks around the name and before the value fall away, a
line without ``=`` is a name with an empty value. Left out: Java's continuation lines and backslash escapes, which its
own writer does not produce.
"""

from collections.abc import Mapping

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.wire import limits

__all__ = ["decode_settings", "encode_settings"]

_WHERE = "body of settings"


def decode_settings(data: bytes) -> dict[str, str]:
    r"""Read settings; the last of several with one name counts.

    >>> decode_settings(b"# comment\nbrokerName=broker-a\nrack = \n")
    {'brokerName': 'broker-a', 'rack': ''}
    """
    if len(data) > limits.SETTINGS_BYTES:
        raise LimitExceeded("size in bytes", where=_WHERE, limit=limits.SETTINGS_BYTES, found=len(data))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise MalformedBody("it is not UTF-8 text", where=_WHERE, at=error.start) from None
    settings = {}
    for line in lines:
        name, _, value = line.strip("\r").partition("=")
        if (name := name.strip()) and name[0] not in "#!":
            settings[name] = value.lstrip()
    return settings


def encode_settings(settings: Mapping[str, str]) -> bytes:
    r"""Write settings, in the order given.

    >>> encode_settings({"brokerName": "broker-a"})
    b'brokerName=broker-a\n'
    """
    # Half of a surrogate pair becomes a question mark, and is refused as what would not be read back.
    text = "".join(f"{name}={value}\n" for name, value in settings.items()).encode(errors="replace")
    if decode_settings(text) != settings:
        raise ConfigurationError(
            "the settings would not be read back as they are",
            next_step="a setting is one line, name=value: no '=' in a name, no line ends, no blanks around either",
        )
    return text
