"""The page about the API: every public name, with what its docstring says."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pkgutil import iter_modules
from typing import Any, NamedTuple

from tests.docs.generated.sources import cell, code, fields, first_sentence, markdown, signature_of


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
    _Part(
        "steelyard.spark",
        "Topics as Spark's DataFrames. The options of the source are on [a page of their own](../spark.md#options).",
    ),
    _Part(
        "steelyard.balance.assignors",
        "Who gets which queue, as pure functions.",
        ("Strategy", "find_strategy", "minimum_moves", "plan"),
    ),
    _Part("steelyard.balance.assignors.explain", "Two plans, and what moved from one to the other."),
)

_SETTINGS = re.compile(r"\*\*settings: Unpack\[(\w+)Settings\]")
_SAID = ("steelyard.client.", "steelyard.balance.", "steelyard.model.")
"""Where values for users live; what is said on the wire has the same names now and then."""
_INSIDE = ("check_process", "close_at_exit", "is_elsewhere")
"""What clients have for one another."""

_OPENING = """# API

Every public name, with what the code says of it. Options have [a page of their own](options.md), and so have
[errors](errors.md).
"""


def api_page() -> str:
    """Write the page."""
    parts = [each for part in _PARTS for each in _part(part)]
    return "\n\n".join([_OPENING.strip(), *parts, *_answers_of_admin()]) + "\n"


def _part(part: _Part) -> Iterator[str]:
    module = importlib.import_module(part.module)
    yield f"## {part.module}"
    yield part.says
    if part.module == "steelyard.testing":
        yield _fixtures()
    for name in part.names or sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        if inspect.isclass(thing):
            yield from _twin(name, thing) if part.module == "steelyard.aio" else _class(part.module, name, thing)
        elif inspect.isfunction(thing):
            yield f"### {part.module}.{name}"
            yield _python(signature_of(thing, name, is_method=False))
            yield markdown(thing.__doc__)


def _fixtures() -> str:
    """List the fixtures of the plug-in."""
    source = inspect.getsource(importlib.import_module("steelyard.testing.plugin"))
    rows = [
        f"| `{node.name}` | {cell(first_sentence(ast.get_docstring(node)))} |"
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("mq")
    ]
    return "\n".join(["| fixture | what it is |", "|---|---|", *rows])


def _answers_of_admin() -> Iterator[str]:
    """Show the values that an administrator is told: those that its methods name."""
    yield "## What Admin tells"
    yield "The values that methods of `Admin` take and return."
    admin = importlib.import_module("steelyard.client.admin")
    parts = [admin.Admin, *(type(part) for _, part in _admin_parts(admin.Admin))]
    reported = " ".join(
        signature_of(member, name) for kind in parts for name, member in _public(kind) if inspect.isfunction(member)
    )
    found = {
        kind
        for module in iter_modules(admin.__path__)
        for name, kind in vars(importlib.import_module(f"steelyard.client.admin.{module.name}")).items()
        if inspect.isclass(kind) and kind.__module__.startswith(_SAID) and re.search(rf"\b{name}\b", reported)
    }
    shown = {
        getattr(importlib.import_module("steelyard"), name) for name in importlib.import_module("steelyard").__all__
    }
    for kind in sorted(found - shown, key=lambda each: (each.__name__, each.__module__)):
        table = _fields(kind)
        if table:
            yield f"### {kind.__name__}"
            yield markdown(kind.__doc__)
            yield table


def _twin(name: str, kind: type) -> Iterator[str]:
    """Say of a class for asyncio how it differs from the one above: in what is awaited."""
    yield f"### steelyard.aio.{name}"
    if kind is getattr(importlib.import_module("steelyard"), name):
        yield "The same as in `steelyard`."
        return
    yield markdown(kind.__doc__)
    there = {each for each, _ in _public(getattr(importlib.import_module("steelyard"), name))}
    methods = [
        (each, member) for each, member in _public(kind) if each in there and inspect.isfunction(inspect.unwrap(member))
    ]
    awaited = [f"`{each}`" for each, member in methods if inspect.iscoroutinefunction(member)]
    plain = [f"`{each}`" for each, member in methods if not inspect.iscoroutinefunction(member)]
    yield f"To be awaited: {', '.join(awaited) or 'nothing'}.\n\nAs they are: {', '.join(plain) or 'nothing'}."


def _class(module: str, name: str, kind: type) -> Iterator[str]:
    yield f"### {module}.{name}"
    if (
        "__init__" in kind.__dict__
        and not hasattr(kind, "__struct_fields__")
        and not hasattr(kind, "__dataclass_fields__")
    ):
        head = signature_of(kind.__dict__["__init__"], name)
        yield _python(_SETTINGS.sub("**options", head))
        if found := _SETTINGS.search(head):
            yield f"The options are [here](options.md#{found[1].lower()})."
    yield markdown(kind.__doc__)
    if issubclass(kind, Enum):
        yield "\n".join(f"- `{each.name}`: {each.value}" for each in kind)
        return
    table = _fields(kind)
    if table:
        yield table
    rows = list(_members(kind))
    if rows:
        yield "\n\n".join(rows)
    if name == "Admin":
        for part_name, part in _admin_parts(kind):
            yield f"#### {module}.Admin.{part_name}"
            yield markdown(type(part).__doc__)
            yield "\n\n".join(_members(type(part)))


def _admin_parts(kind: type) -> Iterator[tuple[str, object]]:
    """Find the parts of an administrator's client, such as ``admin.topics``; it connects only when it is used."""
    yield from ((name, part) for name, part in vars(kind("localhost:1")).items() if not name.startswith("_"))


def _fields(kind: type) -> str:
    rows = [
        f"| `{field.name}` | {code(field.type)} | {code(field.default)} | {cell(field.says)} |"
        for field in fields(kind)
    ]
    return "\n".join(["| field | type | default | what it is |", "|---|---|---|---|", *rows]) if rows else ""


def _members(kind: type) -> Iterator[str]:
    for name, member in _public(kind):
        if isinstance(member, property):
            yield f"**`{name}`** (property): {first_sentence(member.__doc__)}"
        elif inspect.isfunction(inspect.unwrap(member)):
            awaited = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"{_python(awaited + _method(name, member))}\n\n{markdown(member.__doc__)}"


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
            if name.startswith("_") or name in (*seen, *_INSIDE) or not getattr(plain, "__doc__", None):
                continue
            seen.add(name)
            if isinstance(plain, property) or callable(plain):
                yield name, plain


def _python(text: str) -> str:
    return f"```text\n{text}\n```"
