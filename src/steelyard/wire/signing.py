"""Signed requests: the access key, and a signature with its secret (ACL 1.0 and 2.0).

The signature is HMAC-SHA1 with the secret, as Base64, over the values of all fields in the order of their names, then
the body. A server verifies the fields as they arrived, so `sign_command` turns the fields into texts first: what is
signed is exactly what is written. An empty text, which only a JSON header can carry, adds nothing.

One field is an exception. Brokers of 4.9 leave ``_UNIQUE_KEY_QUERY`` out of the signature, and those from 5.3 on only
for clients up to 4.9.3. A request with that field claims to be of 4.9.3, which changes nothing else in a query, so both
accept one signature. (5.0 and 5.1 always include it, and refuse such a query.)
"""

from base64 import b64encode
from dataclasses import dataclass, field
from hmac import digest

from msgspec import structs

from steelyard.errors import ConfigurationError
from steelyard.model.java_strings import utf16_units
from steelyard.wire.codes import Version
from steelyard.wire.command import Command

_ACCESS_KEY = "AccessKey"
_TOKEN = "SecurityToken"
_SIGNATURE = "Signature"
_UNSIGNED_FIELD = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret; a temporary key has a token, too. Secret and token are never shown.

    >>> Credentials("shop", "8F!x")
    Credentials(access_key='shop')
    """

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key", "token"):
            if name != "token" or self.token is not None:
                _check_text(name, getattr(self, name))


def _check_text(name: str, text: object) -> None:
    try:
        if isinstance(text, str) and text.strip() and text.encode():
            return
    except UnicodeEncodeError:
        pass
    # The value is not shown: it may be the secret.
    raise ConfigurationError(f"{name} is empty, or not a text", next_step="give the text that the broker knows")


def sign_command(command: Command, credentials: Credentials) -> Command:
    """Return a request with its signature; a response is returned as it is.

    Sign last: any later change of fields or body invalidates the signature.
    """
    if command.is_response:
        return command
    texts = command.texts()
    texts[_ACCESS_KEY] = credentials.access_key
    if credentials.token is not None:
        texts[_TOKEN] = credentials.token
    texts.pop(_SIGNATURE, None)
    is_excepted = _UNSIGNED_FIELD in texts
    # Java and Python sort ASCII alike, and all names in use are ASCII.
    names = sorted(texts) if "".join(texts).isascii() else sorted(texts, key=utf16_units)
    content = "".join([texts[name] for name in names if name != _UNSIGNED_FIELD])
    try:
        data = b"".join((content.encode(), command.body, *command.parts))
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the fields of request {command.code} have a text that is not fit for UTF-8",
            next_step="give text without halves of surrogate pairs",
        ) from None
    texts[_SIGNATURE] = b64encode(digest(credentials.secret_key.encode(), data, "sha1")).decode()
    version = min(command.version, int(Version.V4_9_3)) if is_excepted else command.version
    return structs.replace(command, fields=texts, version=version)
