"""Values as a sloppy peer writes them, put right before they are checked: the slow pass, for bodies that did not fit.

Java reads a number where text is due, an enum's name in any case, a null anywhere, and some properties under old names;
an enum's name that nobody knows counts as absent. `mended` does the same to plain JSON values, guided by the type they
are meant for. What it does not understand it leaves alone: the check that follows says what is wrong with it.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from steelyard.wire.body import Body
from steelyard.wire.maps import ById, ByQueue, QueueRef

__all__ = ["mended"]

_Mender = Callable[[Any], Any]


def mended(found: Any, kind: Any) -> Any:
    """Put plain JSON values right for a type.

    >>> mended({"brokerName": 7, "queueId": 0, "topic": None}, QueueRef)
    {'brokerName': '7', 'queueId': 0}
    """
    return _mender(kind)(found)


@lru_cache(maxsize=512)
def _mender(kind: Any) -> _Mender:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str:
        return _text
    if origin is Annotated:
        return _mender(arguments[0])
    if origin in (Union, UnionType):
        return _mender(next(part for part in arguments if part is not NoneType))
    if origin is tuple and arguments[-1] is Ellipsis:
        return _list_of(_mender(arguments[0]))
    if origin in (Mapping, dict):
        return _map_of(_mender(arguments[1]))
    if origin is ById:
        return _map_of(_mender(arguments[0]))
    if origin is ByQueue:
        return _queues_of(_mender(arguments[0]))
    return _class(kind)


def _class(kind: Any) -> _Mender:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _name_of(kind)
    if isinstance(kind, type) and issubclass(kind, Body):
        return _object_of(kind)
    return _as_it_is


def _as_it_is(found: Any) -> Any:
    return found


def _text(found: Any) -> Any:
    return msgspec.json.encode(found).decode() if isinstance(found, int | float) else found


def _name_of(kind: type[Enum]) -> _Mender:
    names = frozenset(member.value for member in kind)

    def mend(found: Any) -> Any:
        if not isinstance(found, str):
            return found
        return name if (name := found.upper()) in names else None

    return mend


def _object_of(kind: type[Body]) -> _Mender:
    fields = {field.encode_name: _mender(field.type) for field in msgspec.structs.fields(kind)}

    def mend(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        whole = {}
        for name, value in found.items():
            wire_name = name if name in fields else kind.old_names.get(name)
            if wire_name in fields and (value := fields[wire_name](value)) is not None:
                whole[wire_name] = value
        return whole

    return mend


def _list_of(item: _Mender) -> _Mender:
    return lambda found: [item(each) for each in found] if isinstance(found, list) else found


def _map_of(value: _Mender) -> _Mender:
    return lambda found: {key: value(each) for key, each in found.items()} if isinstance(found, dict) else found


def _queues_of(value: _Mender) -> _Mender:
    by_text, key = _map_of(value), _mender(QueueRef)

    def mend_pair(pair: Any) -> Any:
        return [key(pair[0]), value(pair[1])] if isinstance(pair, list) and len(pair) == 2 else pair

    return lambda found: [mend_pair(pair) for pair in found] if isinstance(found, list) else by_text(found)
