"""Below the line there is no clock, socket, thread, file, chance, log or Spark.

The rule is a list of what may be imported and not of what may not: a list of the forbidden always misses the next
module somebody thinks of, and this one also answers the question that a refusal raises, namely what to use instead.
Everything on it turns values into values. A module on the list may itself have imported one that is not, such as
`contextlib.os`: that way is closed too. Besides imports, a few builtins reach the world, and two more (`hash` of a
text, `id`) give other answers in every process, which would give every member of a group a plan of its own.
"""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from tests.tidy.tree import Source, complain, modules

_PURE = ("model", "diagnostics", "wire", "metrics", "balance", "protocol", "store", "nameserver", "broker", "simulator")

_VALUES = frozenset(
    """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses datetime decimal difflib enum
    fractions functools graphlib hashlib heapq hmac ipaddress itertools json math numbers operator re statistics string
    struct textwrap types typing unicodedata zlib
    msgspec steelyard
    """.split()
)

# Of a module that also opens the world, the names that do not: memory that is written like a file is a value.
_ONLY_THESE: dict[str, frozenset[str]] = {
    "io": frozenset({"BytesIO", "StringIO"}),
    "sys": frozenset({"byteorder", "version_info"}),
}

# lz4 and zstd (from the standard library, or its backport) turn bytes into bytes; the simulator owns its chance, and
# seeds it.
_ALSO: dict[str, frozenset[str]] = {
    "wire": frozenset({"backports", "compression", "lz4"}),
    "simulator": frozenset({"random", "simulator"}),
}

# The simulator's command line is a shell around it.
_SHELLS = ("simulator/__main__.py", "simulator/command_line.py", "src/steelyard/metrics/__init__.py")

_BUILTINS = {
    "open": "read or write where the world is, and pass the bytes in",
    "input": "take what is asked for as an argument",
    "print": "return what there is to say",
    "breakpoint": "remove it",
    "exec": "call a function",
    "eval": "call a function",
    "compile": "call a function",
    "__import__": "import at the top of the file",
    "__builtins__": "import at the top of the file",
    "__loader__": "import at the top of the file",
    "__spec__": "import at the top of the file",
    "globals": "name what you mean",
    "id": "it differs in every process: compare values",
    "hash": "it differs in every process for texts: use java_hash, or hashlib",
}
_CLOCK_READS = {"now", "utcnow", "today"}
_CLOCKS = {"datetime", "date"}


def test_pure_packages_do_not_touch_the_world() -> None:
    pure = [source for source in modules() if source.package in _PURE and source.path not in _SHELLS]
    assert {source.package for source in pure} == set(_PURE)
    complain(line for source in pure for line in touches(source))


def test_every_way_to_the_world_is_seen() -> None:
    for text in (
        "import time",
        "import os.path",
        "from concurrent.futures import Future",
        "def late():\n    import socket",
        "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
        "import random",
        "import logging",
        "import numpy",
        "import io",
        "from io import FileIO",
        "import sys\nif sys.version_info >= (3, 14):\n    sys.exit()",
        "import sys\nworld = sys",
        "import sys as system\nsystem.version_info",
        "open('x')",
        "print('x')",
        "datetime.now(UTC)",
        "date.today()",
        "read_clock = datetime.now",
        "take(datetime.date.today)",
        "from contextlib import os",
        "import contextlib\ncontextlib.os.getcwd()",
        "import dataclasses as d\nd.sys.exit()",
        "__builtins__['open']('x')",
        "globals()['open']('x')",
        "class Key:\n    def __hash__(self):\n        return open('x')",
        "def place(name):\n    return hash(name) % 4",
        "sorted(members, key=id)",
    ):
        (complaint,) = touches(Source("src/steelyard/balance/producer/queue_selection.py", text))
        assert "src/steelyard/balance/producer/queue_selection.py:" in complaint, text


def test_values_are_fine() -> None:
    text = """
from datetime import UTC, datetime
from hashlib import md5
from io import BytesIO
from . import window
moment = datetime.fromtimestamp(0, UTC)
class Key:
    id: int
    def __hash__(self):
        return hash((self.id, self.open))
import sys
is_new = sys.version_info >= (3, 14)
import collections.abc, json.decoder
said = change.now, collections.abc.Mapping, json.decoder.JSONDecoder
"""
    assert not list(touches(Source("src/steelyard/balance/producer/queue_selection.py", text)))
    assert not list(touches(Source("simulator/world.py", "from random import Random")))


def touches(source: Source) -> Iterator[str]:
    """Say where a file of a pure room reaches for the world."""
    allowed = _VALUES | _ALSO.get(source.package, frozenset())
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in _roots(node):
                if module not in allowed and not _only_harmless(source.tree, node, module):
                    yield (
                        f"{source.at(node)} imports {module!r}, and the room {source.package!r} knows values only: "
                        "take what you need from the world as an argument and return what you want done "
                        "(a module that is all values may join the list in tests/tidy/test_pure_packages.py)"
                    )
    for node, outer, name in _taken_out(source):
        inner = getattr(outer, name, None)
        if isinstance(inner, ModuleType) and _root(inner.__name__) not in allowed:
            yield f"{source.at(node)} finds {inner.__name__!r} in {outer.__name__!r}: take what you need as an argument"
    called = {node.func for node in source.nodes if isinstance(node, ast.Call)}
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in _CLOCK_READS:
            of = getattr(node.value, "attr", getattr(node.value, "id", ""))
            if node in called or of in _CLOCKS:
                yield f"{source.at(node)} reads a clock with {node.attr}: take now_ms as an argument"
    if any(isinstance(node, ast.Name) and node.id in _BUILTINS for node in source.nodes):
        yield from _builtins(source, source.tree, frozenset())


def _builtins(source: Source, node: ast.AST, fine: frozenset[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        within = frozenset({"hash"}) if isinstance(child, ast.FunctionDef) and child.name == "__hash__" else fine
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id in _BUILTINS.keys() - fine:
            yield f"{source.at(child)} uses {child.id}: {_BUILTINS[child.id]}"
        yield from _builtins(source, child, within)


def _taken_out(source: Source) -> Iterator[tuple[ast.AST, ModuleType, str]]:
    """Yield what is taken out of modules of the standard library: the place, the module and the name in it."""
    standard = _VALUES & sys.stdlib_module_names
    bound: dict[str, ModuleType] = {}
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module and _root(node.module) in standard:
            yield from ((node, import_module(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _root(alias.name) in standard:
                    name = alias.name if alias.asname else _root(alias.name)
                    bound[alias.asname or name] = import_module(name)
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
            yield node, bound[node.value.id], node.attr


def _roots(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level or {alias.name for alias in node.names} <= _ONLY_THESE.get(module, frozenset()):
            return []
        return [_root(module)]
    return [_root(alias.name) for alias in node.names]


def _only_harmless(tree: ast.Module, node: ast.Import | ast.ImportFrom, module: str) -> bool:
    """Say whether a module is imported as a whole, under its own name, and only names of it are used that may be."""
    harmless = _ONLY_THESE.get(module)
    if harmless is None or isinstance(node, ast.ImportFrom) or any(alias.asname for alias in node.names):
        return False
    named = sum(isinstance(each, ast.Name) and each.id == module for each in ast.walk(tree))
    fine = sum(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == module
        and each.attr in harmless
        for each in ast.walk(tree)
    )
    return 0 < named == fine


def _root(module: str) -> str:
    return module.partition(".")[0]
