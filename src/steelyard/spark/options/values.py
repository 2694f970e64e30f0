"""Options as they were written, looked up in the table and read by their kind.

Rule: whatever is wrong is said at once, with the name as the table writes it, what was given, and what would do. A name
that is not in the table is an error that says which was meant; only what Spark itself adds is passed over.

Left out: what options mean together (options.py).
"""

import re
from collections.abc import Mapping

import msgspec

from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError
from steelyard.spark.options.table import OPTIONS, Kind, Mode, Option

__all__ = ["Given", "span_ms", "wrong"]

_BY_NAME = {option.name.lower(): option for option in OPTIONS}

_SPARKS_OWN = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode", "serialization.format"})
"""What Spark adds to the options of a source or a sink."""

_ELSEWHERE = {
    "kafka.bootstrap.servers": "namesrv",
    "nameserver": "namesrv",
    "namesrvaddr": "namesrv",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "consumergroup": "group",
    "producergroup": "group",
    "includeheaders": "includeProperties",
    "topics": "subscribe",
    "filter": "tags",
}
"""What the same thing is called by other connectors."""

_MODES = {Mode.BATCH: "a batch read", Mode.STREAM: "a stream", Mode.WRITE: "a write"}
_SPAN = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d)?")
_SPAN_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d{1,18})\s*([kmgt]?)(?:i?b)?")
_SIZE_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECRETS = frozenset({"secretKey", "securityToken", "tlsKeyPassword"})
_LONGEST_COUNT = 18


def wrong(name: str, value: str, next_step: str) -> ConfigurationError:
    """Make the error for a value; secrets are not shown."""
    shown = "a text" if name in _SECRETS else repr(value if len(value) <= 200 else f"{value[:200]}…")
    return ConfigurationError(f"the option {name} is {shown}", next_step=next_step)


def span_ms(text: str) -> int | None:
    """Return a time span in milliseconds; None if it is none.

    >>> span_ms("15m"), span_ms("300"), span_ms("2 h"), span_ms("soon")
    (900000, 300, 7200000, None)
    """
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _SPAN_MS[found[2] or ""]


class Given:
    """The options that were given for one mode. Each method takes a name as the table writes it."""

    def __init__(self, options: Mapping[str, str], mode: Mode) -> None:
        self.mode = mode
        self.path = str(options.get("path") or "")
        """What was given to ``load`` or ``save``: nothing here is a path."""
        self._values: dict[str, str] = {}
        for written, value in options.items():
            known = self._known(written)
            if known is not None:
                self._values[known.name] = str(value)

    def _known(self, written: str) -> Option | None:
        """Return the row of an option; None for what Spark adds."""
        key = written.lower()
        known = _BY_NAME.get(key)
        if known is not None and known.modes & self.mode:
            return known
        if known is not None:
            where = " and ".join(words for mode, words in _MODES.items() if mode & known.modes)
            raise ConfigurationError(
                f"the option {known.name} means nothing in {_MODES[self.mode]}: it is for {where}",
                next_step=self._hint(key) or "leave it out",
            )
        if key in _SPARKS_OWN or key.startswith(("spark.", "__")):
            return None
        raise ConfigurationError(f"there is no option {written!r}", next_step=self._hint(key) or self._all())

    def _hint(self, key: str) -> str:
        here = {option.name.lower(): option.name for option in OPTIONS if option.modes & self.mode}
        meant = here.get(_ELSEWHERE.get(key, "").lower())
        if key in ("topic", "subscribe"):
            meant = "topic" if key == "subscribe" else "subscribe"
        meant = meant or here.get(nearest(key, here) or "")
        return f"did you mean {meant}?" if meant and key not in here else ""

    def _all(self) -> str:
        return f"known are: {', '.join(option.name for option in OPTIONS if option.modes & self.mode)}"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def one_of(self, *names: str) -> str | None:
        """Return which of several options was given; two of them contradict each other."""
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise ConfigurationError(
                f"the options {' and '.join(given)} exclude each other", next_step="leave all but one of them out"
            )
        return given[0] if given else None

    def text(self, name: str) -> str | None:
        """Return a text without blanks around it; None if there is none, nor a default."""
        value = self._values.get(name)
        return _BY_NAME[name.lower()].default if value is None else value.strip()

    def words(self, name: str) -> str | None:
        """Return a text that must not be empty."""
        value = self.text(name)
        if value == "":
            raise wrong(name, "", "give a value, or leave it out")
        return value

    def switch(self, name: str) -> bool:
        """Return whether something is wanted."""
        value = (self.text(name) or "").lower()
        if value not in ("true", "false"):
            raise wrong(name, value, "give true or false")
        return value == "true"

    def count(self, name: str) -> int | None:
        """Return a number of 1 and more."""
        value = self.text(name)
        if value is None:
            return None
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= _LONGEST_COUNT else 0
        if number < 1:
            raise wrong(name, value, f"give {Kind.COUNT.value}")
        return number

    def number(self, name: str) -> int:
        """Return a number of 1 and more that has a default."""
        return self.count(name) or 1

    def span(self, name: str) -> int:
        """Return a time span in milliseconds."""
        value = self.text(name) or ""
        found = span_ms(value)
        if found is None:
            raise wrong(name, value, f"give {Kind.SPAN.value}")
        return found

    def size(self, name: str) -> int | None:
        """Return a number of bytes."""
        value = self.text(name)
        if value is None:
            return None
        found = _SIZE.fullmatch(value.lower())
        number = int(found[1]) * _SIZE_BYTES[found[2]] if found else 0
        if number < 1:
            raise wrong(name, value, f"give {Kind.SIZE.value}")
        return number

    def json(self, name: str) -> object:
        """Return what a JSON text says."""
        value = self.text(name) or ""
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError) as error:
            raise wrong(name, value, f"give JSON ({error})") from None
