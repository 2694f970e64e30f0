"""What the code says of itself: signatures, fields and docstrings, read from the source."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FAR = 120


class Field(NamedTuple):
    """A field of a value: its name, its type and default as they are written, and what is said of it."""

    name: str
    type: str
    default: str
    says: str


def signature_of(function: Callable[..., Any], name: str, *, is_method: bool = True) -> str:
    """Return a function's head as its source has it, each argument on a line of its own where it gets long.

    >>> signature_of(signature_of, "read", is_method=False)
    'read(function: Callable[..., Any], name: str, *, is_method: bool = True) -> str'
    """
    node = _node(inspect.unwrap(function))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{name}(…)"
    given = list(_arguments(node.args))[1 if is_method else 0 :]
    back = f" -> {_type(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    head = f"{name}({', '.join(given)}){back}"
    if len(head) <= _FAR:
        return head
    lines = "".join(f"    {each},\n" for each in given)
    return f"{name}(\n{lines}){back}"


def fields(kind: type) -> Iterator[Field]:
    """Find the public fields of a value, those that it inherits first; what is made by itself is left out."""
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("steelyard"):
            continue
        body = getattr(_node(owner), "body", [])
        for at, node in enumerate(body):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            type_ = _type(node.annotation)
            if node.target.id.startswith("_") or type_.startswith("ClassVar") or _is_made(node.value):
                continue
            default = "" if node.value is None else _default(kind, node.target.id, node.value)
            yield Field(node.target.id, type_, default, _docstring_behind(body, at))


def markdown(doc: str | None, *, deeper: str = "") -> str:
    """Return a docstring as Markdown: examples become fences, and code has one backtick.

    >>> markdown("Say ``a``.")
    'Say `a`.'
    """
    if not doc:
        return ""
    lines: list[str] = []
    is_code = is_session = False
    for line in inspect.cleandoc(doc).splitlines():
        if line.strip() in ("::", "") and not is_session:
            is_code = is_code and line.strip() == ""
            lines.append("")
        elif line.startswith(">>> ") and not is_session:
            is_session = True
            lines += [
                "<!-- not run: it is an example of the code, which runs it with its own tests -->",
                "```pycon",
                line,
            ]
        elif is_session and not line.strip():
            is_session = False
            lines += ["```", ""]
        elif is_session or line.startswith("    "):
            lines.append(line)
        else:
            lines.append(deeper + re.sub(r"``([^`]+)``", r"`\1`", line))
    if is_session:
        lines.append("```")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def first_sentence(doc: str | None) -> str:
    """Return what a docstring begins with, in one line."""
    return markdown(" ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split()))


def cell(text: str) -> str:
    """Return a text as it stands in a cell of a table."""
    return " ".join(re.sub(r"``([^`]+)``", r"`\1`", text).replace("|", "\\|").split())


def code(text: str) -> str:
    """Return a text as code in a cell of a table; nothing stays nothing.

    >>> code("str"), code("str | None")
    ('`str`', '<code>str &#124; None</code>')
    """
    plain = " ".join(text.split())
    if "|" not in plain:
        return f"`{plain}`" if plain else ""
    # Backslashes before a bar are shown by some who read Markdown, and needed by others.
    return f"<code>{escape(plain, quote=False).replace('|', '&#124;')}</code>"


class _Unquoted(ast.NodeTransformer):
    """Takes the quotes off annotations that are written as texts."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Turn a text into a name."""
        return (
            ast.Name(node.value)
            if isinstance(node.value, str) and re.search(r"\[| \| |^[A-Z]\w+$", node.value)
            else node
        )


def _node(thing: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Write out what a function takes."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    for at, (argument, default) in enumerate(zip(plain, defaults, strict=True)):
        yield _argument(argument, default)
        if arguments.posonlyargs and at + 1 == len(arguments.posonlyargs) and at:
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_argument(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwarg is not None:
        yield f"**{_argument(arguments.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    complaints = f"{argument.arg}: {_type(argument.annotation)}" if argument.annotation is not None else argument.arg
    return complaints if default is None else f"{complaints} = {ast.unparse(default)}"


def _type(annotation: ast.expr) -> str:
    return ast.unparse(_Unquoted().visit(annotation))


def _is_made(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != "field":
        return False
    return any(keyword.arg == "init" and ast.unparse(keyword.value) == "False" for keyword in value.keywords)


def _default(kind: type, name: str, value: ast.expr) -> str:
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "msgspec.field"):
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        if "default_factory" in given:
            made = ast.unparse(given["default_factory"])
            return {"dict": "{}", "list": "[]", "tuple": "()"}.get(made, f"{made}()")
        if "default" not in given:
            return ""
        value = given["default"]
    declared = getattr(kind, "__dataclass_fields__", {}).get(name)
    actual = getattr(declared, "default", None)
    if isinstance(actual, int) and not isinstance(actual, bool) and name != "port":
        return _counted(actual, is_size=name.endswith("_bytes"))
    return ast.unparse(value)


def _counted(number: int, *, is_size: bool) -> str:
    """Return a number as people read it.

    >>> _counted(4 << 20, is_size=True), _counted(20_000, is_size=False)
    ('4 MiB', '20,000')
    """
    for unit, name in _UNITS if is_size else ():
        if number >= unit and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number:,}"


def _docstring_behind(body: list[ast.stmt], at: int) -> str:
    behind = body[at + 1] if at + 1 < len(body) else None
    if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) and isinstance(behind.value.value, str):
        return " ".join(behind.value.value.split())
    return ""
