"""Below the line there is no clock, socket, thread, file, chance, log or Spark.

The rule is a list of what may be imported and not of what may not: a list of the forbidden always misses the next
module somebody thinks of, and this one also answers the question that a refusal raises, namely what to use instead.
Everything on it turns values into values. Besides imports, a few builtins reach the world, and two more (`hash` of a
text, `id`) give other answers in every process, which would give every member of a group a plan of its own.
"""

import ast
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, modules

_PURE = ("model", "wire", "balance", "store", "nameserver", "broker", "sim")

_VALUES = frozenset(
    """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses datetime decimal difflib enum
    fractions functools graphlib hashlib heapq hmac ipaddress itertools json math numbers operator re statistics string
    struct textwrap types typing unicodedata zlib
    msgspec steelyard
    """.split()
)

# Of a module that also opens the world, the names that do not: memory that is written like a file is a value.
_ONLY_THESE: dict[str, frozenset[str]] = {"io": frozenset({"BytesIO", "StringIO"})}

# lz4 and zstandard turn bytes into bytes; the simulator owns its chance, and seeds it.
_ALSO: dict[str, frozenset[str]] = {"wire": frozenset({"lz4", "zstandard"}), "sim": frozenset({"random"})}

_BUILTINS = {
    "open": "read or write where the world is, and pass the bytes in",
    "input": "take what is asked for as an argument",
    "print": "return what there is to say",
    "breakpoint": "remove it",
    "exec": "call a function",
    "eval": "call a function",
    "compile": "call a function",
    "__import__": "import at the top of the file",
    "id": "it differs in every process: compare values",
    "hash": "it differs in every process for texts: use java_hash, or hashlib",
}
_CLOCK_READS = {"now", "utcnow", "today"}


def test_pure_rooms_do_not_touch_the_world() -> None:
    complain(line for source in modules() if source.room in _PURE for line in touches(source))


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
        "open('x')",
        "print('x')",
        "datetime.now(UTC)",
        "date.today()",
        "def place(name):\n    return hash(name) % 4",
        "sorted(members, key=id)",
    ):
        (complaint,) = touches(Source("src/steelyard/balance/pick.py", text))
        assert "src/steelyard/balance/pick.py:" in complaint, text


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
"""
    assert not list(touches(Source("src/steelyard/balance/pick.py", text)))
    assert not list(touches(Source("src/steelyard/sim/world.py", "from random import Random")))


def touches(source: Source) -> Iterator[str]:
    """Say where a file of a pure room reaches for the world."""
    allowed = _VALUES | _ALSO.get(source.room, frozenset())
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in _roots(node):
                if module not in allowed:
                    yield (
                        f"{source.at(node)} imports {module!r}, and the room {source.room!r} knows values only: "
                        "take what you need from the world as an argument and return what you want done "
                        "(a module that is all values may join the list in tests/tidy/test_pure_rooms.py)"
                    )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLOCK_READS:
            yield f"{source.at(node)} reads a clock with {node.func.attr}(): take now_ms as an argument"
    yield from _builtins(source, source.tree)


def _builtins(source: Source, node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name == "__hash__":
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id in _BUILTINS:
            yield f"{source.at(child)} uses {child.id}: {_BUILTINS[child.id]}"
        yield from _builtins(source, child)


def _roots(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level or {alias.name for alias in node.names} <= _ONLY_THESE.get(module, frozenset()):
            return []
        return [module.partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]
