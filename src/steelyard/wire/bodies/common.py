"""Bodies that many requests share: a table's version, a table of texts, lists of names, and settings as text.

Settings are one ``name=value`` per line, decoded as Java writes them: empty lines and comments are skipped, blanks
around the name and before the value are stripped, a line without ``=`` is a name with an empty value. Left out:
continuation lines and backslash escapes, which Java does not write.
"""

from collections.abc import Mapping

from msgspec import field
from msgspec.structs import replace

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.wire import limits
from steelyard.wire.java_json import Int64
from steelyard.wire.json_body import JsonBody, always_written


class TableVersion(JsonBody, frozen=True, kw_only=True):
    """The version of a table; two tables are equal if all three numbers are (Java: DataVersion)."""

    counter: Int64 = always_written(0)
    state_version: Int64 | None = None
    """Grows with each change of the master; not in 4.9."""
    timestamp: Int64 = always_written(0)

    def normalized(self) -> "TableVersion":
        """Return the version for comparison: 4.9 does not send the state version, which then is 0."""
        return self if self.state_version is not None else replace(self, state_version=0)


class KVTable(JsonBody, frozen=True, kw_only=True):
    """Texts by name: settings, or a broker's runtime info (Java: KVTable)."""

    table: Mapping[str, str] = always_written({})


class TopicNames(JsonBody, frozen=True, kw_only=True):
    """Names of topics; from a name server also the address of one broker (Java: TopicList)."""

    broker_address: str | None = field(default=None, name="brokerAddr")
    topics: tuple[str, ...] = always_written((), "topicList")


class GroupNames(JsonBody, frozen=True, kw_only=True):
    """Names of consumer groups (Java: GroupList)."""

    groups: tuple[str, ...] = always_written((), "groupList")


_SETTINGS = "body of settings"


def decode_settings(data: bytes) -> dict[str, str]:
    """Decode settings; the last of several with one name counts."""
    if len(data) > limits.SETTINGS_BYTES:
        raise LimitExceeded("size in bytes", where=_SETTINGS, limit=limits.SETTINGS_BYTES, found=len(data))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise MalformedBody("it is not UTF-8 text", where=_SETTINGS, at=error.start) from None
    settings = {}
    for line in lines:
        name, _, value = line.strip("\r").partition("=")
        if (name := name.strip()) and name[0] not in "#!":
            settings[name] = value.lstrip()
    return settings


def encode_settings(settings: Mapping[str, str]) -> bytes:
    """Encode settings, in their order."""
    # Half of a surrogate pair becomes a question mark, and is refused below.
    text = "".join(f"{name}={value}\n" for name, value in settings.items()).encode(errors="replace")
    if decode_settings(text) != settings:
        raise ConfigurationError(
            "the settings would not be read back as they are",
            next_step="a setting is one line, name=value: no '=' in a name, no line ends, no blanks around either",
        )
    return text
