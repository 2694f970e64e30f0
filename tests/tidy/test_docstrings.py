"""Every module, and every public name in it, says in its first line what it is.

The first line is a sentence: it does not start with a small letter and ends in a full stop, a colon or a question mark,
so that a list of first lines reads as a page. Public means: no underscore, in it or in the class around it. An
override of a standard protocol (a dunder) needs none.
"""

import ast
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, modules

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_every_public_name_says_what_it_is() -> None:
    complain(line for source in modules() for line in silent_names(source))


def test_a_silent_name_is_seen() -> None:
    def complaints(text: str) -> list[str]:
        return list(silent_names(Source("src/steelyard/model/x.py", text)))

    assert not complaints('"""It is."""\ndef _own(): ...\nclass _Own:\n    def method(self): ...')
    assert not complaints('"""Is it?"""\nclass Kind:\n    """A kind:"""\n    def __str__(self): ...')
    assert "the module" in complaints("x = 1")[0]
    assert "'go'" in complaints('"""It is."""\ndef go(): ...')[0]
    assert "'Kind.go'" in complaints('"""It is."""\nclass Kind:\n    """A kind."""\n    async def go(self): ...')[0]
    assert "'go'" in complaints('"""It is."""\ndef go():\n    """goes there."""')[0]
    assert "'go'" in complaints('"""It is."""\ndef go():\n    """Go there\n\n    now."""')[0]
    assert not complaints('"""It is."""\n@overload\ndef go(): ...\ndef go():\n    """Go."""')


def silent_names(source: Source) -> Iterator[str]:
    """Name what has no docstring, or one whose first line is no sentence."""
    for name, node in _public(source.tree, ""):
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        if not first:
            yield f"{source.at(node)}: {name} has no docstring: say in one sentence what it is or does"
        elif first[-1] not in ".:?" or first[0].islower():
            yield f"{source.at(node)}: the docstring of {name} starts {first!r}: make its first line a sentence"


def _public(node: _Documented, inside: str) -> Iterator[tuple[str, _Documented]]:
    yield repr(inside) if inside else "the module", node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for child in _members(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            if any(
                getattr(mark, "id", getattr(mark, "attr", "")) in ("overload", "setter")
                for mark in child.decorator_list
            ):
                continue
            yield from _public(child, f"{inside}.{child.name}".lstrip("."))


def _members(node: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    for child in node.body:
        if isinstance(child, ast.If | ast.Try):
            yield from (part for part in ast.walk(child) if isinstance(part, ast.stmt) and part is not child)
        else:
            yield child
