"""What one of the interpreters that Steelyard runs on gets wrong or does otherwise, and nobody here uses.

- Possessive quantifiers and atomic groups: in Python 3.11.2, which is Debian 12's, a possessive group matches even if
  it failed in its middle, so that ``0E`` is a number. Where what follows a run of characters is none of them, looking
  back costs nothing, and nothing needs to be possessive.
- `asyncio.wait_for`: before Python 3.12 it may swallow a cancellation that comes as its work ends.
- From Python 3.14 on, annotations in a class are evaluated when somebody asks for them, and first find the names of
  the class: beside a method called ``list``, what ``list[str]`` means is an error.
"""

import ast
import re
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, texts

# Escapes, classes of characters and the name of a language are passed over; group 1 is what must not be.
_PART = re.compile(
    r"\\.|\bC\+\+|\[\^?\]?(?:\\.|[^\]\\])*\]|(\(\?>|(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\}|\{,[0-9]+\})\+)", re.DOTALL
)
# Files without it are not read further: most have nothing of the kind, and reading takes its time.
_MAYBE = re.compile(r"[*+?}][\"'\sbfruBFRU]*\+|\(\?>")


def test_no_pattern_is_possessive() -> None:
    complain(line for source in _python() for line in possessive(source))


def test_a_possessive_pattern_is_seen_and_a_plain_one_is_not() -> None:
    for start, end in (
        ("import re\nre.compile(r'[0-9]+", "+')"),
        ("import re\nre.sub(b'a?", "+', b'', data)"),
        ("import re\nre.search(r'(?:a|b)*", "+c', text)"),
        ("import re\nre.fullmatch(r'a{2,3}", "+', text)"),
        ("import re\nre.fullmatch(f'{start}[+]{{1}}+", "+', text)"),
        ("from re import findall\nfindall('(?", ">a|ab)c', text)"),
        ("import re\n_START = rb'\\\\s*", "+'\nre.compile(_START + b':')"),
        ("pytest.raises(ValueError, match='a+", "+')"),
    ):
        (complaint,) = possessive(Source("src/steelyard/x.py", start + end))
        assert "src/steelyard/x.py:" in complaint, start + end
    for text in (
        r"import re; re.compile(r'\++[+*]+\[+[\]+]+a+?b*?{+}(?:c)+')",
        "import re\ndef client():\n    '''Like the one in C++.'''",
        "name = 'the C++ client'",
    ):
        assert not list(possessive(Source("src/steelyard/x.py", text))), text


def test_nobody_waits_with_wait_for() -> None:
    complain(line for source in _python() for line in waits(source))


def test_a_wait_for_is_seen_and_a_method_of_that_name_is_not() -> None:
    for text in ("await asyncio.wait_for(work, 1)", "from asyncio import wait_for", "waits = asyncio.wait_for"):
        (complaint,) = waits(Source("tests/x.py", text))
        assert "tests/x.py:1" in complaint
    assert not list(waits(Source("tests/x.py", "page.wait_for(work)\nasync with asyncio.timeout(1): ...")))


def test_no_annotation_of_a_class_means_what_the_class_calls_otherwise() -> None:
    complain(line for source in _python() for line in shadowed(source))


def test_an_annotation_that_the_class_shadows_is_seen_and_another_is_not() -> None:
    for text in (
        "class Topics:\n    def names(self) -> list[str]: ...\n    def list(self) -> None: ...",
        "class Topics:\n    def list(self, of: tuple[list[str], ...]) -> None: ...",
        "class Options:\n    name: Annotated[str, option()]\n    option: str | None = None",
        "class Listener:\n    bound: socket.socket\n    @property\n    def socket(self): ...",
    ):
        (complaint,) = shadowed(Source("src/steelyard/x.py", text))
        assert "src/steelyard/x.py:2" in complaint
    for text in (
        "class Topics:\n    def names(self) -> builtins.list[str]: ...\n    def list(self) -> None: ...",
        "class Topics:\n    class Kind: ...\n    kind: Kind",
        "class Options:\n    name: str\n    str_: int = 0\ndef str(): ...",
    ):
        assert not list(shadowed(Source("src/steelyard/x.py", text)))


def possessive(source: Source) -> Iterator[str]:
    """Say where a text is a possessive pattern: any text of a file that imports `re`, or what `match=` is given."""
    nodes = list(ast.walk(source.tree)) if _MAYBE.search(source.text) else []
    if not any(_imports_re(node) for node in nodes):
        nodes = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "match"]
    prose = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and node not in prose:
            pattern = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            for found in _PART.finditer(pattern):
                if found[1]:
                    yield (
                        f"{source.at(node)}: {found[1]!r} is possessive or atomic, which Python 3.11.2 gets wrong: "
                        "write the pattern so that what follows a run of characters is none of them"
                    )


def waits(source: Source) -> Iterator[str]:
    """Say where a file uses `asyncio.wait_for`."""
    for node in ast.walk(source.tree) if "wait_for" in source.text else ():
        if isinstance(node, ast.Attribute):
            is_used = node.attr == "wait_for" and isinstance(node.value, ast.Name) and node.value.id == "asyncio"
        else:
            is_used = isinstance(node, ast.ImportFrom) and node.module == "asyncio" and "wait_for" in _names(node)
        if is_used:
            yield f"{source.at(node)}: asyncio.wait_for may swallow a cancellation: use `async with asyncio.timeout(…)`"


def shadowed(source: Source) -> Iterator[str]:
    """Say where an annotation in a class uses a name that the class binds there or further down."""
    for found in _classes(source.tree.body) if "class " in source.text else ():
        last = {name: at for at, statement in enumerate(found.body) for name in _bound_names(statement)}
        for at, statement in enumerate(found.body):
            for annotation in _annotations(statement):
                for node in ast.walk(annotation):
                    if isinstance(node, ast.Name) and last.get(node.id, -1) >= at:
                        yield (
                            f"{source.at(node)}: from Python 3.14 on, {node.id} is what class {found.name} calls so: "
                            "give one of them another name, or write builtins.list"
                        )


def _classes(statements: list[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Yield the classes among statements, and in classes and functions there; expressions hold none."""
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield statement
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
            yield from _classes(statement.body)


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _annotations(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, ast.AnnAssign):
        yield statement.annotation
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        given = statement.args
        for each in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
            if each is not None and each.annotation is not None:
                yield each.annotation
        if statement.returns is not None:
            yield statement.returns


def _python() -> Iterator[Source]:
    return (source for source in texts() if source.path.endswith(".py"))


def _imports_re(node: ast.AST) -> bool:
    return (isinstance(node, ast.Import) and "re" in _names(node)) or (
        isinstance(node, ast.ImportFrom) and node.module == "re"
    )


def _names(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}
