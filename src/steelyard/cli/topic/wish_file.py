"""A file of topics as they are to be.

Two forms are read. Ours is short: ``{"orders": 16, "audit": {"queues": 4, "may": "read"}}``, or a list of objects that
have a ``name``. The other is the one that mqadmin's `updateTopicList` takes and `steelyard cluster export` writes:
``[{"topicName": "orders", "readQueueNums": 16, "writeQueueNums": 16, "perm": 6}]``. In both ``brokers`` says who is to
have a topic, and what is not said stays as it is.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steelyard.cli.topic.rights import May
from steelyard.client.admin.topic_wishes import TopicWish
from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError
from steelyard.model import Permission

__all__ = ["read_wishes", "wishes_in"]

_MOST_BYTES = 16 * 1024 * 1024
_FORMS = 'write {"orders": 16}, or [{"name": "orders", "queues": 16, "may": "read-write"}]'


def read_wishes(path: Path) -> list[TopicWish]:
    """Read a file, or stdin for ``-``."""
    try:
        if str(path) == "-":
            text = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", next_step="check the path") from None
    if len(text) > _MOST_BYTES:
        raise ConfigurationError(f"{path} has more than {_MOST_BYTES >> 20} MiB", next_step="give it in parts")
    return wishes_in(text, "stdin" if str(path) == "-" else str(path))


def wishes_in(text: bytes, where: str = "the file") -> list[TopicWish]:
    """Return the wishes of a text.

    >>> wishes_in(b'{"orders": 16, "audit": {"queues": 4, "may": "read"}}')[1].permission
    <Permission.READ: 4>
    >>> wishes_in(b'[{"topicName": "orders", "readQueueNums": 8, "writeQueueNums": 4}]')[0].write_queues
    4
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{where} is no JSON: {error}", next_step=_FORMS) from None
    if isinstance(found, dict):
        entries = [_named(name, entry, where) for name, entry in found.items()]
    elif isinstance(found, list):
        entries = [{"name": entry} if isinstance(entry, str) else entry for entry in found]
    else:
        raise ConfigurationError(f"{where} has no list of topics", next_step=_FORMS)
    return [_wish(entry, f"entry {place} of {where}") for place, entry in enumerate(entries)]


def _named(name: str, entry: object, where: str) -> dict[str, Any]:
    """Return the entry of a topic that stands under its name."""
    if entry is None:
        return {"name": name}
    if isinstance(entry, int) and not isinstance(entry, bool):
        return {"name": name, "queues": entry}
    if isinstance(entry, dict) and not entry.keys() & {"name", "topicName"}:
        return {"name": name, **entry}
    raise ConfigurationError(f"{where} has neither a number nor an object for topic {name[:80]!r}", next_step=_FORMS)


def _wish(entry: object, where: str) -> TopicWish:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where} is no object", next_step=_FORMS)
    is_theirs = "topicName" in entry
    known = _THEIRS if is_theirs else _OURS
    given: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in known:
            meant = nearest(key, known)
            raise ConfigurationError(
                f"{where} has {key[:80]!r}, which nobody knows",
                next_step=f"did you mean {meant!r}?" if meant else f"known are: {', '.join(known)}",
            )
        name, read = known[key]
        if value is not None:
            given[name] = read(value, f"{key!r} in {where}")
    if "name" not in given:
        raise ConfigurationError(f"{where} names no topic", next_step=_FORMS)
    return TopicWish(**given)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a text")
    return value


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(where, "a whole number")
    return value


def _truth(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false")
    return value


def _may(value: object, where: str) -> Permission:
    return May.named(_text(value, where)).permission


def _bits(value: object, where: str) -> Permission:
    number = _number(value, where)
    if not 0 <= number <= sum(Permission):
        raise _wrong(where, "2 to write, 4 to read or 6 for both")
    return Permission(number)


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise _wrong(where, "a list of brokers' names")
    return tuple(value)


def _attributes(value: object, where: str) -> dict[str, str | None]:
    """Read attributes; a sign in front of a name is that of Apache's lists of changes."""
    if not isinstance(value, dict) or not all(each is None or isinstance(each, str) for each in value.values()):
        raise _wrong(where, "an object of texts")
    return {
        name.removeprefix("+").removeprefix("-"): None if name.startswith("-") else told for name, told in value.items()
    }


def _wrong(where: str, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"{where} is something else", next_step=f"give {wanted}")


_Reader = tuple[str, Callable[[object, str], object]]
_OURS: Mapping[str, _Reader] = {
    "name": ("name", _text),
    "queues": ("queues", _number),
    "read_queues": ("read_queues", _number),
    "write_queues": ("write_queues", _number),
    "may": ("permission", _may),
    "order": ("order", _truth),
    "attributes": ("attributes", _attributes),
    "brokers": ("brokers", _names),
}
_THEIRS: Mapping[str, _Reader] = {
    "topicName": ("name", _text),
    "readQueueNums": ("read_queues", _number),
    "writeQueueNums": ("write_queues", _number),
    "perm": ("permission", _bits),
    "order": ("order", _truth),
    "topicFilterType": ("filter_type", _text),
    "topicSysFlag": ("sys_flag", _number),
    "attributes": ("attributes", _attributes),
    "brokers": ("brokers", _names),
}
"""What an entry may have: the wish's own word for it, and how it is read."""
