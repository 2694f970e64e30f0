"""Whatever Steelyard raises is of one tree, `steelyard.errors`, so that one except clause catches it.

A protocol of Python keeps its own errors: ``__getitem__`` raises KeyError or IndexError, ``__next__`` StopIteration.
What the simulator derives from BaseException is no error but the end of a process, and no except clause may catch it.
"""

import ast
import builtins
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, modules

_BUILTIN_ERRORS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
)
_PROTOCOLS: dict[str, frozenset[str]] = {
    "__getitem__": frozenset({"KeyError", "IndexError"}),
    "__getattr__": frozenset({"AttributeError"}),
    "__next__": frozenset({"StopIteration"}),
    "__anext__": frozenset({"StopAsyncIteration"}),
}


def test_every_error_is_of_one_tree() -> None:
    complain(line for source in modules() if source.package != "errors" for line in foreign_errors(source))


def test_a_foreign_error_is_seen() -> None:
    def complaints(text: str) -> list[str]:
        return list(foreign_errors(Source("src/steelyard/model/x.py", text)))

    assert "ValueError" in complaints("def go():\n    raise ValueError('no')")[0]
    assert "KeyError" in complaints("def go():\n    raise KeyError from None")[0]
    assert "Broken" in complaints("class Broken(Exception): ...")[0]
    assert "Worse" in complaints("class Worse(SteelyardError): ...")[0]
    assert "Killed" in complaints("class Killed(BaseException): ...")[0]
    assert not list(foreign_errors(Source("simulator/x.py", "class Killed(BaseException): ...")))
    assert not complaints("def __getitem__(self, name):\n    raise KeyError(name)")
    assert not complaints(
        "def go():\n    try: ...\n    except ValueError as e:\n        raise MalformedBody('x') from e"
    )


def foreign_errors(source: Source) -> Iterator[str]:
    """Say where a file raises an error of Python's own, or makes a new one."""
    if any(isinstance(node, ast.Raise) for node in source.nodes):
        yield from _raised(source, source.tree, frozenset())
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            above = {getattr(parent, "id", getattr(parent, "attr", "")) for parent in node.bases}
            if source.package == "simulator" and above == {"BaseException"}:
                continue
            if any(name in _BUILTIN_ERRORS or name.endswith("Error") for name in above):
                yield f"{source.at(node)} makes the error {node.name}: put it into the tree in src/steelyard/errors"


def _raised(source: Source, node: ast.AST, allowed: frozenset[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        within = _PROTOCOLS.get(child.name, frozenset()) if isinstance(child, ast.FunctionDef) else allowed
        if isinstance(child, ast.Raise) and child.exc is not None:
            kind = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = getattr(kind, "id", "")
            if name in _BUILTIN_ERRORS and name not in allowed:
                yield f"{source.at(child)} raises {name}: raise a class of steelyard.errors that says what to do next"
        yield from _raised(source, child, within)
