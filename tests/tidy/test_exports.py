"""A name without a leading underscore is public, and what is public is listed in ``__all__``.

One rule for classes, functions and constants alike: whoever wants to keep a name to the module puts an underscore
before it. A type variable is no such name. A package lists exactly what its ``__init__`` re-exports and defines nothing
there; another module may list what it imports, if it means to pass it on. The order is ruff's (RUF022): constants,
then classes, then the rest.
"""

import ast
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, modules


def test_what_is_public_is_listed_and_what_is_listed_is_there() -> None:
    complain(line for source in modules() for line in export_complaints(source))


def test_a_missing_a_gone_and_an_unlisted_name_are_seen() -> None:
    def said(text: str, path: str = "src/steelyard/model/x.py") -> list[str]:
        return list(export_complaints(Source(path, text)))

    assert not said('__all__ = ["LIMIT", "Kind", "make"]\nLIMIT = 1\nclass Kind: ...\ndef make(): ...\n_own = 2')
    assert not said("_own = 2")
    assert "has public names and no __all__" in said("LIMIT = 1")[0]
    assert "'LIMIT'" in said("__all__ = []\nLIMIT: int = 1")[0]
    assert "'make'" in said("__all__ = []\nasync def make(): ...")[0]
    assert "'gone'" in said('__all__ = ["gone"]')[0]
    assert "twice" in said('__all__ = ["A", "A"]\nA = 1')[0]
    assert not said('__all__ = ["Queue"]\nfrom steelyard.model import Queue\nT = TypeVar("T")')
    package = "src/steelyard/model/__init__.py"
    assert not said('from steelyard.model.queue import Queue\n__all__ = ["Queue"]', package)
    assert "'Queue'" in said("from steelyard.model.queue import Queue\n__all__ = []", package)[0]
    assert "defines 'make'" in said('__all__ = ["make"]\ndef make(): ...', package)[0]


def export_complaints(source: Source) -> Iterator[str]:
    """Compare ``__all__`` with the names a module defines, or a package re-exports."""
    listed = _listed(source)
    defined = {name: node for node in source.tree.body for name in _defines(node) if not name.startswith("_")}
    imported = {name: node for node in source.tree.body for name in _imports(node) if not name.startswith("_")}
    public, other = (imported, defined) if source.is_package else (defined, imported)
    if listed is None:
        if public:
            yield f"{source.path} has public names and no __all__: list {', '.join(sorted(public))}"
        return
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{source.path}: __all__ lists {name!r} twice"
    for name, node in public.items():
        if name not in listed:
            yield f"{source.at(node)}: {name!r} is public and not in __all__: list it, or put an underscore before it"
    for name in listed:
        if name in other and source.is_package:
            yield f"{source.at(other[name])} defines {name!r}: a package only re-exports, so give it a file of its own"
        elif name not in public and name not in other:
            yield f"{source.path}: __all__ lists {name!r}, which is not there: remove it, or define it"


def _listed(source: Source) -> list[str] | None:
    for node in source.tree.body:
        if "__all__" in _defines(node) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            return list(ast.literal_eval(node.value))
    return None


def _defines(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign) and not _is_type_variable(node.value):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _is_type_variable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("TypeVar", "ParamSpec", "TypeVarTuple")


def _imports(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
