"""Arrows point down only: a room imports the rooms below it and no others.

Every import counts: at the top of a file, inside a function, under TYPE_CHECKING, relative, or by name through
importlib. The rooms that are still to come stand in the table already, so that the first file of a new room is held to
it. `errors` and `version` may be imported by all and import nothing of the project.
"""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name

from tests.tidy.tree import Source, complain, modules

_PURE = frozenset({"model", "diagnostics", "wire", "balance", "protocol", "store", "nameserver", "broker"})
_EVERYBODY_MAY = frozenset({"errors", "version"})
_OURS = ("steelyard", "simulator")

# "balance.assignors" is a part of a room: the broker may ask for a plan, and for nothing else of balancing.
_MAY_IMPORT: dict[str, frozenset[str]] = {
    "": frozenset({"client", "model"}),
    "aio": frozenset({"client", "model"}),
    "otel": frozenset({"client", "model"}),
    "__main__": frozenset({"cli"}),
    "errors": frozenset(),
    "version": frozenset(),
    "model": frozenset(),
    "metrics": frozenset(),
    "diagnostics": frozenset({"model"}),
    "wire": frozenset({"model"}),
    "balance": frozenset({"diagnostics", "model"}),
    "store": frozenset({"model", "wire"}),
    "nameserver": frozenset({"model", "wire"}),
    "broker": frozenset({"diagnostics", "model", "wire", "store", "balance.assignors", "metrics"}),
    "protocol": frozenset({"model", "wire", "balance"}),
    "simulator": _PURE,
    "net": frozenset({"diagnostics", "wire"}),
    "serve": frozenset({"net", "nameserver", "broker", "store", "wire", "model", "metrics"}),
    "client": frozenset({"diagnostics", "protocol", "model", "wire", "balance", "net", "metrics"}),
    "spark": frozenset({"model", "wire", "balance", "client"}),
    "pipelines": frozenset({"diagnostics", "model", "balance", "client", "spark"}),
    "cli": frozenset({"diagnostics", "model", "balance", "client", "serve", "store", "dashboard"}),
    "dashboard": frozenset({"diagnostics", "model", "balance", "client", "serve", "net", "metrics"}),
    # Faults and inspection reach into the brokers themselves.
    "testing": frozenset({"model", "balance", "client", "serve", "broker", "store", "net", "wire"}),
}

# A file that may import more than its room: the simulator's command line is made of the parts of ours, and
# `steelyard.metrics` is also the public door to the clients' metrics.
_SHELLS: dict[str, frozenset[str]] = {
    "simulator/command_line.py": frozenset({"cli"}),
    "src/steelyard/metrics/__init__.py": frozenset({"client"}),
}

# What people touch must start fast and without Spark: these are imported inside the function that needs them.
_ONLY_LAZILY: dict[str, frozenset[str]] = {
    package: frozenset({"spark", "pipelines"}) for package in ("cli", "dashboard", "testing")
}


def test_arrows_point_down_only() -> None:
    complain(line for source in modules() if source.module.startswith(_OURS) for line in arrows_up(source))


def test_every_package_is_in_the_table() -> None:
    packages = {source.package: source.path for source in modules() if source.module.startswith(_OURS)}
    complain(
        f"{path}: the room {package!r} is not in the table: say in tests/tidy/test_arrows.py what it may import"
        for package, path in packages.items()
        if package not in _MAY_IMPORT
    )


def test_the_table_itself_has_no_circle() -> None:
    below: dict[str, set[str]] = {}
    for _ in _MAY_IMPORT:
        for package, allowed in _MAY_IMPORT.items():
            parts = {part.partition(".")[0] for part in allowed}
            below[package] = parts.union(*(below.get(part, set()) for part in parts))
    assert not [package for package, packages in below.items() if package in packages]


def test_an_arrow_up_is_seen_wherever_it_hides() -> None:
    hidden = {
        "import steelyard.wire": "wire",
        "import steelyard.wire.frames as frames": "wire",
        "from steelyard.wire import frames": "wire",
        "from steelyard import wire": "wire",
        "from steelyard import Message": "the front door",
        "import steelyard": "the front door",
        "from ...wire import frames": "wire",
        "from ... import wire": "wire",
        "def late():\n    from steelyard.net import clock": "net",
        "if TYPE_CHECKING:\n    from steelyard.client import Producer": "client",
        "importlib.import_module('steelyard.spark.source')": "spark",
        "importlib.import_module('.net', 'steelyard')": "net",
        "from importlib import import_module as load\nload('steelyard.net')": "net",
        "from simulator.world import World": "simulator",
    }
    for text, target in hidden.items():
        (complaint,) = arrows_up(Source("src/steelyard/balance/group/member.py", text))
        assert target in complaint, (text, complaint)


def test_an_arrow_down_is_fine() -> None:
    text = """
from steelyard import errors
from steelyard.errors import AllocationError
from steelyard.balance.assignors import average
from .inflight_window import InflightWindow
from . import flow_control
from ...model import Queue
import collections, steelyard.version
"""
    assert not list(arrows_up(Source("src/steelyard/balance/group/member.py", text)))
    assert not list(arrows_up(Source("src/steelyard/balance/__init__.py", "from .group.member import Member")))


def test_what_everybody_may_import_imports_nothing() -> None:
    (complaint,) = arrows_up(Source("src/steelyard/errors.py", "from steelyard.version import __version__"))
    assert "may import nothing" in complaint


def test_a_part_of_a_package_can_be_allowed_alone() -> None:
    fine = "from steelyard.balance.assignors import plan\nfrom steelyard.balance import assignors"
    assert not list(arrows_up(Source("src/steelyard/broker/subscription_groups.py", fine)))
    wrong = "from steelyard.balance.group.member import Member"
    assert list(arrows_up(Source("src/steelyard/broker/subscription_groups.py", wrong)))


def test_the_command_line_meets_spark_only_inside_a_function() -> None:
    for text in (
        "from steelyard.pipelines import archive",
        "try:\n    import steelyard.spark\nexcept ImportError: ...",
    ):
        assert list(arrows_up(Source("src/steelyard/cli/pipeline.py", text)))
    lazily = "def run():\n    from steelyard.pipelines import archive"
    assert not list(arrows_up(Source("src/steelyard/cli/pipeline.py", lazily)))


def arrows_up(source: Source) -> Iterator[str]:
    """Say which imports of a file point up, or sideways."""
    allowed = _MAY_IMPORT.get(source.package, frozenset()) | _SHELLS.get(source.path, frozenset())
    if source.package not in _EVERYBODY_MAY:
        allowed |= _EVERYBODY_MAY
    lazily = _ONLY_LAZILY.get(source.package, frozenset())
    functions = [node for node in source.nodes if lazily and _is_function(node)]
    late = {node for function in functions for node in ast.walk(function)}
    importers = _importers(source)
    for node in source.nodes:
        for target in _targets(source, node, importers):
            package = target.partition(".")[0]
            if package == source.package and target:
                continue
            if any(target == part or target.startswith(f"{part}.") for part in allowed):
                continue
            if package in lazily:
                if node not in late:
                    yield f"{source.at(node)} imports {package!r} when it loads: import it in the function that uses it"
                continue
            what = f"{target!r}" if target else "the front door (steelyard/__init__.py), which imports much"
            may = f"{', '.join(sorted(allowed))} alone" if allowed else "nothing of the project"
            who = f"the room {source.package!r}" if source.package else "the front door"
            yield (
                f"{source.at(node)} imports {what}, and {who} may import {may}: "
                "take the value as an argument, or move the code to the room that may know both"
            )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _importers(source: Source) -> set[str]:
    """Name the functions that import by name, also where one was given another name."""
    aliases = (alias for node in source.nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    return {"import_module", "__import__"} | {
        alias.asname for alias in aliases if alias.asname and alias.name == "import_module"
    }


def _targets(source: Source, node: ast.AST, importers: set[str]) -> Iterator[str]:
    """Yield what a node imports of the project, as dotted names below ``steelyard``; the package itself is empty."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = _imported_from(source, node)
    elif isinstance(node, ast.Call) and _called(node) in importers:
        given = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        names = [resolve_name(given[0], "".join(given[1:2]) or source.module)] if given else []
    else:
        return
    for name in names:
        if name == "steelyard" or name.startswith("steelyard."):
            yield name.removeprefix("steelyard").removeprefix(".")
        elif name.partition(".")[0] == "simulator":
            yield name


def _imported_from(source: Source, node: ast.ImportFrom) -> list[str]:
    start = node.module or ""
    if node.level:
        parts = source.module.split(".")
        parts = parts[: len(parts) - node.level + source.is_package]
        start = ".".join([*parts, *filter(None, [node.module])])
    # Only the names of rooms can be told apart from other names: `from steelyard import wire` imports a room.
    if start == "steelyard":
        return [f"steelyard.{alias.name}" if alias.name in _MAY_IMPORT else "steelyard" for alias in node.names]
    if start == "steelyard.balance":
        return [f"{start}.{alias.name}" for alias in node.names]
    return [start]


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
