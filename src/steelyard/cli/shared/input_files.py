"""Input files, or stdin for ``-``: JSON objects, topics, groups and offsets.

Topics come in two forms. Ours is short: ``{"orders": 16, "audit": {"queues": 4, "may": "read"}}``, or a list of objects
with a ``name``. The other is that of mqadmin's `updateTopicList` and `steelyard cluster export`:
``[{"topicName": "orders", "readQueueNums": 16, "writeQueueNums": 16, "perm": 6}]``. In both ``brokers`` selects
brokers, and settings that are left out stay. Offsets are what `steelyard offset show` printed as JSON.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from steelyard.cli.shared.options import TopicPermission
from steelyard.client.admin.group_config import GroupConfig, parse_group_config
from steelyard.client.admin.topic_plan import TopicSpec
from steelyard.client.suggestions import closest_match
from steelyard.errors import ConfigurationError, file_error
from steelyard.model import Permission, Queue

T = TypeVar("T")

_MAX_INPUT_BYTES = 64 << 20


def _read_input(source: str, hint: str = "check the path") -> bytes:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(_MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise file_error(f"{source} cannot be read", error, hint) from None
    if len(data) > _MAX_INPUT_BYTES:
        raise ConfigurationError(f"{source} has more than {_MAX_INPUT_BYTES >> 20} MiB", next_step="split it")
    return data


def read_json_objects(source: str, hint: str) -> list[Any]:
    """Read JSON objects from a file, or from stdin; ``hint`` says how to write them."""
    return _decode_json_objects(_read_input(source, hint), hint)


def _decode_json_objects(data: bytes, hint: str) -> list[Any]:
    r"""Decode JSON: a list, one value, or one a line.

    >>> _decode_json_objects(b'[{"a": 1}]', ""), _decode_json_objects(b'{"a": 1}\n{"a": 2}\n', "")
    ([{'a': 1}], [{'a': 1}, {'a': 2}])
    """
    try:
        try:
            whole = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"that is no JSON ({error})", next_step=hint) from None
    return whole if isinstance(whole, list) else [whole]


_TOPICS_HINT = 'write {"orders": 16}, or [{"name": "orders", "queues": 16, "may": "read-write"}]'


def read_topics(path: Path) -> list[TopicSpec]:
    """Read topics from a file, or from stdin."""
    return decode_topics(_read_input(str(path)), "stdin" if str(path) == "-" else str(path))


def decode_topics(text: bytes, location: str = "the file") -> list[TopicSpec]:
    """Decode topics.

    >>> decode_topics(b'{"orders": 16, "audit": {"queues": 4, "may": "read"}}')[1].permission
    <Permission.READ: 4>
    >>> decode_topics(b'[{"topicName": "orders", "readQueueNums": 8, "writeQueueNums": 4}]')[0].write_queues
    4
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{location} is no JSON: {error}", next_step=_TOPICS_HINT) from None
    if isinstance(found, dict):
        entries = [_topic_entry(name, entry, location) for name, entry in found.items()]
    elif isinstance(found, list):
        entries = [{"name": entry} if isinstance(entry, str) else entry for entry in found]
    else:
        raise ConfigurationError(f"{location} has no list of topics", next_step=_TOPICS_HINT)
    return [_decode_topic(entry, f"entry {place} of {location}") for place, entry in enumerate(entries)]


def _topic_entry(name: str, entry: object, location: str) -> dict[str, Any]:
    """Return the entry of a topic in an object of topics by name."""
    if entry is None:
        return {"name": name}
    if isinstance(entry, int) and not isinstance(entry, bool):
        return {"name": name, "queues": entry}
    if isinstance(entry, dict) and not entry.keys() & {"name", "topicName"}:
        return {"name": name, **entry}
    raise ConfigurationError(
        f"{location} has neither a number nor an object for topic {name[:80]!r}", next_step=_TOPICS_HINT
    )


def _decode_topic(entry: object, location: str) -> TopicSpec:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{location} is no object", next_step=_TOPICS_HINT)
    is_mqadmin = "topicName" in entry
    known = _MQADMIN_FIELDS if is_mqadmin else _OUR_FIELDS
    given: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in known:
            meant = closest_match(key, known)
            raise ConfigurationError(
                f"{location} has {key[:80]!r}, which is unknown",
                next_step=f"did you mean {meant!r}?" if meant else f"known are: {', '.join(known)}",
            )
        name, read = known[key]
        if value is not None:
            given[name] = read(value, f"{key!r} in {location}")
    if "name" not in given:
        raise ConfigurationError(f"{location} names no topic", next_step=_TOPICS_HINT)
    return TopicSpec(**given)


def _decoder_of(kind: type[T], expected: str) -> Callable[[object, str], T]:
    def decode(value: object, location: str) -> T:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong_type(location, expected)
        return value

    return decode


_as_text = _decoder_of(str, "a text")
_as_integer = _decoder_of(int, "a whole number")
_as_boolean = _decoder_of(bool, "true or false")


def _as_permission(value: object, location: str) -> Permission:
    return TopicPermission.parse(_as_text(value, location)).permission


def _as_permission_bits(value: object, location: str) -> Permission:
    number = _as_integer(value, location)
    if not 0 <= number <= sum(Permission):
        raise _wrong_type(location, "2 to write, 4 to read or 6 for both")
    return Permission(number)


def _as_names(value: object, location: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise _wrong_type(location, "a list of brokers' names")
    return tuple(value)


def _as_attributes(value: object, location: str) -> dict[str, str | None]:
    """Decode attributes; Apache's lists of changes have a sign in front of names."""
    if not isinstance(value, dict) or not all(each is None or isinstance(each, str) for each in value.values()):
        raise _wrong_type(location, "an object of texts")
    return {
        name.removeprefix("+").removeprefix("-"): None if name.startswith("-") else text for name, text in value.items()
    }


def _wrong_type(location: str, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{location} has the wrong type", next_step=f"give {expected}")


_FieldDecoder = tuple[str, Callable[[object, str], object]]
_OUR_FIELDS: Mapping[str, _FieldDecoder] = {
    "name": ("name", _as_text),
    "queues": ("queues", _as_integer),
    "read_queues": ("read_queues", _as_integer),
    "write_queues": ("write_queues", _as_integer),
    "may": ("permission", _as_permission),
    "order": ("order", _as_boolean),
    "attributes": ("attributes", _as_attributes),
    "brokers": ("brokers", _as_names),
}
_MQADMIN_FIELDS: Mapping[str, _FieldDecoder] = {
    "topicName": ("name", _as_text),
    "readQueueNums": ("read_queues", _as_integer),
    "writeQueueNums": ("write_queues", _as_integer),
    "perm": ("permission", _as_permission_bits),
    "order": ("order", _as_boolean),
    "topicFilterType": ("filter_type", _as_text),
    "topicSysFlag": ("sys_flag", _as_integer),
    "attributes": ("attributes", _as_attributes),
    "brokers": ("brokers", _as_names),
}
"""Keys of an entry: the field of `TopicSpec`, and its decoder."""


_GROUPS_HINT = 'write a group as {"name": "billing", "retries": 3}, and several as a list or one a line'


def read_groups(source: str) -> list[GroupConfig]:
    """Read groups from a file, or from stdin."""
    groups: dict[str, GroupConfig] = {}
    for each in map(parse_group_config, read_json_objects(source, _GROUPS_HINT)):
        if each.name in groups:
            raise ConfigurationError(f"group {each.name!r} is given twice", next_step="remove one of them")
        groups[each.name] = each
    if not groups:
        raise ConfigurationError("there is no group in it", next_step=_GROUPS_HINT)
    return list(groups.values())


_OFFSETS_HINT = "give what this prints: steelyard offset show GROUP --json"


class _OffsetRow(msgspec.Struct):
    topic: str
    broker: str
    queue_id: int
    committed: Annotated[int, msgspec.Meta(ge=0)]


def read_offsets(source: str) -> dict[Queue, int]:
    """Read offsets from a file, or from stdin."""
    return _decode_offsets(read_json_objects(source, _OFFSETS_HINT))


def _decode_offsets(found: Iterable[object]) -> dict[Queue, int]:
    """Decode offsets.

    >>> _decode_offsets([{"topic": "orders", "broker": "broker-0", "queue_id": 3, "committed": 41, "lag": 0}])
    {Queue(topic='orders', broker='broker-0', queue_id=3): 41}
    """
    try:
        rows = msgspec.convert(found, list[_OffsetRow])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"these are no offsets ({error})", next_step=_OFFSETS_HINT) from None
    if not rows:
        raise ConfigurationError("there are no offsets in it", next_step=_OFFSETS_HINT)
    return {Queue(row.topic, row.broker, row.queue_id): row.committed for row in rows}
