"""Signed requests: who asks, proven by a secret that never travels.

The signature is made of the values of all fields, in the order of their names, and then the body: HMAC-SHA1 with the
secret, as Base64. The same signature serves both generations of access control, where the key is called a user name.

Whoever checks it takes the fields as they arrived. So what is signed is exactly what is written: `signed` gives the
command its fields as texts, and an empty one, which only a JSON header can carry, adds nothing to what is signed.

One field is an exception. Brokers of 4.9 leave ``_UNIQUE_KEY_QUERY`` out of what they check, and those from 5.3 on do
so only for a caller that is as old as 4.9.3. A request with that field says it is, which changes nothing else in how a
query is answered, and so both take the same signature. (5.0 and 5.1 check it always, and refuse such a query.)
"""

from base64 import b64encode
from dataclasses import dataclass, field
from hmac import digest

from msgspec import structs

from steelyard.errors import ConfigurationError
from steelyard.model.java_text import utf16_units
from steelyard.wire.codes import Version
from steelyard.wire.command import Command

__all__ = ["Credentials", "signed"]

_ACCESS_KEY = "AccessKey"
_TOKEN = "SecurityToken"
_SIGNATURE = "Signature"
_UNSIGNED = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key and its secret; a temporary key has a token as well. Neither of the last two is ever shown.

    >>> Credentials("shop", "8F!x")
    Credentials(access_key='shop')
    """

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key", "token"):
            if name != "token" or self.token is not None:
                _check(name, getattr(self, name))


def _check(name: str, text: object) -> None:
    try:
        if isinstance(text, str) and text.strip() and text.encode():
            return
    except UnicodeEncodeError:
        pass
    # What was given is not shown: it may be the secret.
    raise ConfigurationError(f"{name} is empty, or not a text", next_step="give the text that the broker knows")


def signed(command: Command, credentials: Credentials) -> Command:
    """Return a request signed; an answer, which nobody signs, comes back as it is.

    Sign last: whatever is added to the fields or to the body afterwards makes the signature false.

    >>> ask = signed(Command(105, {"topic": "orders"}), Credentials("shop", "12345678"))
    >>> ask.texts()
    {'topic': 'orders', 'AccessKey': 'shop', 'Signature': 'gcB5MAHkVnOESP8gfuybzfxcrLE='}
    """
    if command.is_answer:
        return command
    texts = command.texts()
    texts[_ACCESS_KEY] = credentials.access_key
    if credentials.token is not None:
        texts[_TOKEN] = credentials.token
    texts.pop(_SIGNATURE, None)
    is_excepted = _UNSIGNED in texts
    # Every name in use is ASCII, which Java and Python sort alike.
    names = sorted(texts) if "".join(texts).isascii() else sorted(texts, key=utf16_units)
    content = "".join([texts[name] for name in names if name != _UNSIGNED])
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
