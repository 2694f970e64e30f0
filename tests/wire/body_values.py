"""Random bodies: a strategy for each type, made from the type itself, so that a new body is tested by being there."""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from steelyard.model import Queue
from steelyard.wire import bodies
from steelyard.wire.json_body import ById, ByQueue, JsonBody

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    str: st.text(max_size=8),
    int: st.integers(-(2**31), 2**31 - 1),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
}


def body_types() -> list[type[JsonBody]]:
    """List every body there is."""
    modules = (import_module(f"{bodies.__name__}.{found.name}") for found in iter_modules(bodies.__path__))
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return sorted(
        (kind for kind in kinds if issubclass(kind, JsonBody) and kind is not JsonBody), key=lambda kind: kind.__name__
    )


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for values of the given type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Annotated:
        return _bounded(arguments[0], arguments[1])
    if origin in (Union, UnionType):
        return st.one_of([values(part) for part in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values(str), values(arguments[1]), max_size=3)
    if origin is ById:
        return st.dictionaries(st.integers(-(2**63), 2**63 - 1), values(arguments[0]), max_size=3).map(ById)
    if origin is ByQueue:
        return st.dictionaries(values(Queue), values(arguments[0]), max_size=3).map(ByQueue)
    return _class_values(kind)


def _class_values(kind: Any) -> st.SearchStrategy[Any]:
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if issubclass(kind, JsonBody):
        return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, *(values(hint) for hint in hints.values()))


def _bounded(kind: type, bounds: msgspec.Meta) -> st.SearchStrategy[Any]:
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    assert isinstance(bounds.ge, int)
    assert isinstance(bounds.le, int)
    return st.integers(bounds.ge, bounds.le)
