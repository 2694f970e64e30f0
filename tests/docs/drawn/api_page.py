"""The page about the API: every public name, with what its docstring says."""

import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from tests.docs.drawn.sources import cell, fields, first_sentence, markdown, signature_of

__all__ = ["api_page"]


class _Part(NamedTuple):
    """A module that people import from: what the page says of it, and the names that it is about."""

    module: str
    says: str
    names: tuple[str, ...] = ()
    """Empty: all."""


_PARTS = (
    _Part("steelyard", "The clients for plain programs, and the values that they take and give."),
    _Part("steelyard.aio", "The same clients for asyncio. Methods have the same names and arguments, and are awaited."),
    _Part("steelyard.serve.embedded", "A whole cluster inside a program."),
    _Part("steelyard.testing", "A cluster in a test; pytest finds the fixtures by itself."),
    _Part("steelyard.spark", "Topics as Spark's DataFrames. The options of the source are on [a page of their own](../spark.md#options)."),
    _Part("steelyard.balance.allocate", "Who gets which queue, as pure functions.", ("Plan", "Strategy", "find_strategy", "least_moves", "plan")),
    _Part("steelyard.balance.explain", "Two plans, and what moved from one to the other."),
)

_OPENING = """# API

Every public name, with what the code says of it. Options have [a page of their own](options.md), and so have
[errors](errors.md).
"""


def api_page() -> str:
    """Write the page."""
    return "\n\n".join([_OPENING.strip(), *(each for part in _PARTS for each in _part(part))]) + "\n"


def _part(part: _Part) -> Iterator[str]:
    module = importlib.import_module(part.module)
    yield f"## {part.module}"
    yield part.says
    for name in part.names or sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        if inspect.isclass(thing):
            if part.module == "steelyard.aio" and not _is_client(thing):
                yield f"### {part.module}.{name}"
                yield "The same as in `steelyard`."
            else:
                yield from _class(part.module, name, thing)
        elif inspect.isfunction(thing):
            yield f"### {part.module}.{name}"
            yield _python(signature_of(thing, name, is_method=False))
            yield markdown(thing.__doc__)


def _is_client(kind: type) -> bool:
    return kind.__module__.startswith("steelyard.client.") and hasattr(kind, "close")


def _class(module: str, name: str, kind: type) -> Iterator[str]:
    yield f"### {module}.{name}"
    if "__init__" in kind.__dict__ and not hasattr(kind, "__struct_fields__") and not hasattr(kind, "__dataclass_fields__"):
        yield _python(signature_of(kind.__dict__["__init__"], name))
    yield markdown(kind.__doc__)
    if issubclass(kind, Enum):
        yield "\n".join(f"- `{each.name}`: {each.value}" for each in kind)
        return
    listed = [f"| `{field.name}` | `{cell(field.type)}` | {_code(field.default)} | {cell(field.says)} |" for field in fields(kind)]
    if listed:
        yield "\n".join(["| field | type | default | what it is |", "|---|---|---|---|", *listed])
    rows = list(_members(kind))
    if rows:
        yield "\n\n".join(rows)


def _members(kind: type) -> Iterator[str]:
    for name, member in _public(kind):
        if isinstance(member, property):
            yield f"**`{name}`** (property): {first_sentence(member.__doc__)}"
        elif inspect.isfunction(inspect.unwrap(member)):
            said = markdown(member.__doc__)
            yield f"{_python(('await ' if inspect.iscoroutinefunction(member) else '') + _method(name, member))}\n\n{said}"


def _method(name: str, member: Any) -> str:
    return signature_of(member, name, is_method=not isinstance(member, staticmethod))


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    """Find what a class has to offer, its own first, then what it inherits from us."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("steelyard"):
            continue
        for name, member in vars(owner).items():
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if name.startswith("_") or name in seen or not getattr(plain, "__doc__", None):
                continue
            seen.add(name)
            if isinstance(plain, property) or callable(plain):
                yield name, plain


def _python(text: str) -> str:
    return f"```text\n{text}\n```"


def _code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""
