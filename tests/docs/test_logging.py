"""The page about logging names every logger, each package has its own, and nothing is printed unless asked for."""

import ast
import re
import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT, complain, modules

_PAGE = "docs/reference/logging.md"
_OF_A_ROLE = {"serve": {"steelyard.broker", "steelyard.nameserver"}}
"""Packages that run several things, whose names people look for."""
_SET_UP_BY = {"src/steelyard/__init__.py", "src/steelyard/cli", "src/steelyard/spark/worker.py"}
"""What adds handlers to the parent of all: the library as such, and what is a program itself."""


def _loggers() -> list[tuple[str, str, str]]:
    """Return each logger of ours that a module asks for: path, package and name."""
    found = []
    for source in modules():
        for name in re.findall(r"getLogger\((.+?)\)", source.text):
            if name.isidentifier():
                (name,) = re.findall(rf"^{name} = (\".*?\")", source.text, re.MULTILINE)
            text = ast.literal_eval(name)
            if source.path.startswith("src/") and text.startswith("steelyard"):
                found.append((source.path, source.package, text))
    return found


def test_a_package_logs_under_its_own_name() -> None:
    complain(
        f"{path} logs as {name}, and not as steelyard.{package}: people set levels by package"
        for path, package, name in _loggers()
        if not path.startswith(tuple(_SET_UP_BY))
        and name not in _OF_A_ROLE.get(package, {f"steelyard.{package}", f"steelyard.{package}.audit"})
    )


def test_the_page_names_every_logger_and_no_other() -> None:
    page = (ROOT / _PAGE).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(steelyard[\w.]*)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted({name for *_, name in _loggers()})


def _stderr(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr


@pytest.mark.process
def test_nothing_is_printed_until_a_program_sets_logging_up() -> None:
    script = "import logging, steelyard\n{}\nlogging.getLogger('steelyard.client').warning('a handler raised')"
    assert _stderr(script.format("")) == ""
    assert _stderr(script.format("logging.basicConfig()")) == "WARNING:steelyard.client:a handler raised\n"


@pytest.mark.process
def test_commands_print_warnings() -> None:
    script = (
        "import logging, steelyard\n"
        "from steelyard.cli.shared.terminal import stderr_warnings, warn_on_stderr\n"
        "warn_on_stderr()\n"
        "log = logging.getLogger('steelyard.client')\n"
        "log.warning('once')\n"
        "with stderr_warnings():\n"
        "    log.warning('twice')\n"
        "with stderr_warnings(quiet=True):\n"
        "    log.warning('never')\n"
    )
    assert _stderr(script) == "steelyard: once\nsteelyard: twice\n"
