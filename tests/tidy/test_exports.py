"""An underscore says what is private, and ``__all__`` what a package or a module for users offers.

A name without a leading underscore is public; nobody imports one that has it from another module. Names are listed
where they are offered: a package lists exactly what its ``__init__`` re-exports and defines nothing there, and a module
that users import from lists what it has for them. Elsewhere a list would only repeat the underscores; a module has one
if it passes on what it imports. A public function of the product is named in another file: else it is private. The
order of a list is ruff's (RUF022).
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.tidy.tree import Source, complain, modules, texts

_FOR_USERS = {"steelyard.serve.embedded", "steelyard.balance.assignors.explain"}
"""Besides packages and what lies beside them, such as ``steelyard.errors``."""


def test_what_is_offered_is_listed_and_what_is_listed_is_there() -> None:
    sources = modules()
    taken = _taken(sources)
    complain(line for source in sources for line in export_complaints(source, taken.get(source.module, set())))


def test_nobody_imports_what_is_private_to_another_module() -> None:
    complain(line for source in modules() for line in private_imports(source))


def test_a_public_function_is_named_in_another_file() -> None:
    complain(lonely_functions(modules(), texts()))


def test_a_missing_a_gone_an_unlisted_and_a_needless_name_are_seen() -> None:
    def complaints(text: str, path: str = "src/steelyard/x.py", taken: tuple[str, ...] = ()) -> list[str]:
        return list(export_complaints(Source(path, text), set(taken)))

    assert not complaints('__all__ = ["LIMIT", "Kind", "make"]\nLIMIT = 1\nclass Kind: ...\ndef make(): ...\n_own = 2')
    assert not complaints("_own = 2")
    assert not complaints("LIMIT = 1")
    assert "has public names and no __all__" in complaints("LIMIT = 1", taken=("LIMIT",))[0]
    assert "'LIMIT'" in complaints("__all__ = []\nLIMIT: int = 1", taken=("LIMIT",))[0]
    assert "'Alias'" in complaints("__all__ = []\nAlias: TypeAlias = int")[0]
    assert "'make'" in complaints("__all__ = []\nasync def make(): ...")[0]
    assert "'gone'" in complaints('__all__ = ["gone"]')[0]
    assert "twice" in complaints('__all__ = ["A", "A"]\nA = 1')[0]
    assert not complaints('__all__ = ["Queue"]\nfrom steelyard.model import Queue\nT = TypeVar("T")')
    assert not complaints(
        'if sys.version_info >= (3, 14):\n    from a import b\nelse:\n    from c import b\n__all__ = ["b"]'
    )
    package = "src/steelyard/model/__init__.py"
    assert not complaints('from steelyard.model.queue import Queue\n__all__ = ["Queue"]', package)
    assert not complaints('from steelyard.version import __version__\n__all__ = ["__version__"]', package)
    assert "'Queue'" in complaints("from steelyard.model.queue import Queue\n__all__ = []", package)[0]
    lazy = 'if _typing.TYPE_CHECKING:\n    from steelyard.client import Producer\n__all__ = ["Producer"]\n'
    assert not complaints(lazy + "def __getattr__(name): ...", package)
    assert "'Producer'" in complaints(lazy, package)[0]
    assert "defines 'make'" in complaints('__all__ = ["make"]\ndef make(): ...', package)[0]
    inside = "src/steelyard/model/x.py"
    assert not complaints("class Kind: ...\ndef make(): ...", inside)
    assert "says again what underscores say" in complaints('__all__ = ["make"]\ndef make(): ...', inside)[0]
    assert not complaints('from a import b\n__all__ = ["b", "make"]\ndef make(): ...', inside)
    assert "'make'" in complaints('from a import b\n__all__ = ["b"]\ndef make(): ...', inside)[0]


def test_a_private_import_and_a_taken_constant_are_seen() -> None:
    taking = Source("src/steelyard/model/y.py", "from steelyard.model.x import LIMIT, _own")
    assert _taken([taking]) == {"steelyard.model.x": {"LIMIT", "_own"}}
    assert "'_own'" in next(private_imports(taking))
    assert not list(private_imports(Source("src/steelyard/model/y.py", "from steelyard.version import __version__")))


def test_a_function_that_no_other_file_names_is_seen() -> None:
    source = Source("src/steelyard/model/x.py", "def make(): ...\ndef _own(): ...\ndef pytest_configure(): make()")
    assert [*lonely_functions([source], [source])] == [
        "src/steelyard/model/x.py:1: no other file names 'make': put an underscore before it, or remove it"
    ]
    assert not [*lonely_functions([source], [source, Source("tests/y.py", "make()")])]


def export_complaints(source: Source, taken: set[str]) -> Iterator[str]:
    """Compare ``__all__`` with the names a module defines, or a package re-exports; ``taken`` is what others import."""
    listed = _listed(source)
    defined = {name: node for node in source.tree.body for name in _defines(node) if not name.startswith("_")}
    imported = {name: node for node in _top(source.tree) for name in _imports(node) if not _is_private(name)}
    public, there = (imported, imported) if source.is_package else (defined, defined | imported)
    required = {name: node for name, node in public.items() if source.is_package or name in taken or not name.isupper()}
    if source.is_package:
        for name, node in defined.items():
            yield f"{source.at(node)} defines {name!r}: a package only re-exports, so give it a file of its own"
    if not _offers(source) and set(listed or ()) <= set(defined):
        if listed is not None:
            yield f"{source.path}: __all__ says again what underscores say: remove it"
        return
    if listed is None:
        if required:
            yield f"{source.path} has public names and no __all__: list {', '.join(sorted(required))}"
        return
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{source.path}: __all__ lists {name!r} twice"
    for name, node in required.items():
        if name not in listed:
            yield f"{source.at(node)}: {name!r} is public and not in __all__: list it, or put an underscore before it"
    for name in listed:
        if name not in there:
            yield f"{source.path}: __all__ lists {name!r}, which is not there: remove it, or define it"


def _offers(source: Source) -> bool:
    """Whether users import from a module: it is a package, lies beside the packages, or is named above."""
    beside = source.module.startswith("steelyard.") and source.module.count(".") == 1
    return source.is_package or beside or source.module in _FOR_USERS


def lonely_functions(sources: Iterable[Source], everywhere: Iterable[Source]) -> Iterator[str]:
    """Say which public functions are named in no file but their own; pytest looks for hooks by their names."""
    files = Counter(word for text in everywhere for word in set(re.findall(r"\w+", text.text)))
    for source in sources:
        for node in source.tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith(("_", "pytest_")):
                continue
            if files[node.name] < 2:
                yield f"{source.at(node)}: no other file names {node.name!r}: put an underscore before it, or remove it"


def _top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield what stands at the top of a module, for whichever version of Python.

    What only a checker sees is loaded by its ``__getattr__``, if any.
    """
    is_lazy = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    for node in tree.body:
        if is_lazy and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from node.body
        elif isinstance(node, ast.If) and ast.unparse(node.test).startswith("sys.version_info"):
            yield from (*node.body, *node.orelse)
        else:
            yield node


def private_imports(source: Source) -> Iterator[str]:
    """Say where a file imports a name that another module keeps to itself."""
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and (
            node.level or (node.module or "").startswith(("steelyard", "simulator"))
        ):
            for alias in node.names:
                if _is_private(alias.name):
                    yield f"{source.at(node)} imports {alias.name!r}, which is private: make it public or move it"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _taken(sources: Iterable[Source]) -> dict[str, set[str]]:
    """Collect what is imported by name from each module."""
    taken: dict[str, set[str]] = {}
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                taken.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return taken


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
