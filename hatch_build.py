"""A step of building the wheel: the manual page of the command `steelyard`, written from the command line itself."""

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    import click

_SHARED_PANELS = ("Output", "Cluster")


class ManualPageHook(BuildHookInterface[Any]):
    """Adds the page to the wheel's data files, from where pip installs it into `share/man`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the page; an editable install does without."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        page = Path(tempfile.mkdtemp()) / "steelyard.1"
        page.write_text(manual_page(), encoding="utf-8")
        build_data["shared_data"][str(page)] = "share/man/man1/steelyard.1"
        self._page = page

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was written for the build."""
        del build_data, artifact_path
        if version != "editable":
            self._page.unlink()
            self._page.parent.rmdir()


def manual_page() -> str:
    """Return the page: every command with its own options, and once the options that many have."""
    from steelyard.cli.main import app
    from steelyard.cli.shared import exit_codes
    from steelyard.version import __version__

    commands = list(_commands(app, "steelyard"))
    shared = {name: text for _, command in commands for name, text in _options(command, are_shared=True)}
    lines = [
        f'.TH STEELYARD 1 "" "steelyard {__version__}" "User Commands"',
        ".SH NAME",
        f"steelyard \\- {_escape((app.help or '').partition(':')[0].lower())}",
        ".SH SYNOPSIS",
        ".B steelyard",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        *(".SH DESCRIPTION", *_text(app.help or "")),
        ".SH COMMANDS",
    ]
    for path, command in commands:
        pieces = " ".join((path, *command.collect_usage_pieces(_context(command))))
        lines += [f'.SS "{_escape(pieces)}"', *_text(command.help or ""), *_terms(_options(command, are_shared=False))]
        lines += _text(command.epilog or "")
    lines += [".SH OPTIONS OF MANY COMMANDS", *_terms(shared.items()), ".SH EXIT STATUS"]
    rows = [line.strip("| ").split(" | ") for line in (exit_codes.__doc__ or "").splitlines() if line.startswith("| ")]
    lines += _terms((code, meaning) for code, meaning in rows[1:])
    return "\n".join(lines) + "\n"


def _context(command: "click.Command") -> "click.Context":
    import click

    return click.Context(command)


def _commands(group: "click.Group", path: str) -> "Iterator[tuple[str, click.Command]]":
    """Yield every command that is no group, with its words."""
    import click

    for name in group.list_commands(_context(group)):
        found = group.get_command(_context(group), name)
        if isinstance(found, click.Group):
            yield from _commands(found, f"{path} {name}")
        elif found is not None:
            yield f"{path} {name}", found


def _options(command: "click.Command", *, are_shared: bool) -> Iterator[tuple[str, str]]:
    """Yield what the help says of a command's own parameters, or of those that many commands have."""
    from steelyard.cli.shared.parameters import PanelOption

    for each in command.params:
        is_shared = isinstance(each, PanelOption) and each.panel in _SHARED_PANELS
        record = each.get_help_record(_context(command))
        if record is not None and is_shared is are_shared:
            yield record


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f".B {_escape(name)}", _escape(text))


def _text(text: str) -> Iterator[str]:
    """Yield paragraphs; one that begins with a backspace keeps its lines, as click's help has it."""
    for paragraph in text.strip().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip(" \b")]
        keeps_lines = paragraph.lstrip(" \n").startswith("\b")
        yield from (".PP", *((".nf",) if keeps_lines else ()))
        yield from (_escape(line if keeps_lines else line.strip()) for line in lines)
        yield from (".fi",) if keeps_lines else ()


def _escape(text: str) -> str:
    """Return a line as roff takes it for text."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text
