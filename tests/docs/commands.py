"""Command lines as pages show them: found, cut into words, and understood, without running them."""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import click

from steelyard.cli.main import app
from tests.docs.command_tree import context_of
from tests.tidy.tree import fences

_SHELLS = ("console", "sh", "bash", "shell")
_ENDS = re.compile(r"[();<>|&]+")
_INNER = re.compile(r"\$\(([^()]*)\)")
_STREAM = re.compile(r"(?<=\s)[12](?=>)")
_SET = re.compile(r"[A-Z_]+=")
_BEFORE = ("until", "while", "if", "do", "then", "!", "time")
_STANDS_FOR = "…"
_FENCED = re.compile(r"^\s*(`{3,}|~{3,}).*?^\s*\1\s*$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?<!`)`(steelyard [^`]+)`(?!`)")


class Shown(NamedTuple):
    """A command line on a page."""

    page: str
    line: int
    words: tuple[str, ...]
    """Without the word steelyard."""
    is_whole: bool = True
    """Whether it is to be typed as it stands; in a sentence it may be the beginning of a command."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line} `steelyard {shlex.join(self.words)}`"


def shown_commands(page: str, text: str) -> Iterator[Shown]:
    """Find the command lines of a page that call steelyard, those behind a pipe as well."""
    for fence in fences(page, text):
        language = fence.language.partition(" ")[0]
        if language not in _SHELLS:
            continue
        command, began = "", 0
        for number, line in enumerate(fence.text.splitlines(), start=fence.line + 1):
            if command:
                command += f" {line.strip()}"
            elif language != "console" or line.startswith("$ "):
                command, began = line.removeprefix("$ "), number
            if command.endswith("\\"):
                command = command.removesuffix("\\")
                continue
            for words in _calls(command):
                yield Shown(page, began, words)
            command = ""


def named_commands(page: str, text: str) -> Iterator[Shown]:
    """Find the command lines that sentences and tables of a page name."""
    prose = _FENCED.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in _NAMED.finditer(prose):
        for words in _calls(" ".join(found[1].replace("\\|", "|").split())):
            yield Shown(page, prose.count("\n", 0, found.start()) + 1, words, is_whole=False)


def _calls(command: str) -> Iterator[tuple[str, ...]]:
    """Cut a line of a shell into calls of steelyard, those in brackets first."""
    if "steelyard" not in command:
        return
    while inner := _INNER.search(command):
        yield from _calls(inner[1])
        command = f"{command[: inner.start()]}{_STANDS_FOR}{command[inner.end() :]}"
    cutter = shlex.shlex(_STREAM.sub("", command), posix=True, punctuation_chars="();<>|&")
    cutter.whitespace_split, cutter.commenters = True, "#"
    words: list[str] = []
    for word in (*cutter, ";"):
        if not _ENDS.fullmatch(word):
            words.append(word)
            continue
        while words and (_SET.match(words[0]) or words[0] in _BEFORE):
            words.pop(0)
        if words and words[0] == "steelyard":
            yield tuple(words[1:])
        words = []


def command_complaint(shown: Shown) -> str:
    """Say what the command line does not know of what a page shows; nothing, if it knows all of it."""
    if any(_STANDS_FOR in word or "$" in word for word in shown.words):
        return ""
    command: click.Command = app
    context, words, known = context_of(command), list(shown.words), ["steelyard"]
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            is_fine = not words or words[0] in ("--help", "--version")
            return "" if is_fine else f"{shown} has no verb"
        found = command.get_command(context, words[0])
        if found is None:
            names = ", ".join(command.list_commands(context))
            return f"{shown}: `{' '.join(known)}` knows no {words[0]!r}; it knows {names}"
        known.append(words.pop(0))
        command = found
    return _unread(shown, command, context, " ".join(known), words)


def _unread(shown: Shown, command: click.Command, parent: click.Context, name: str, words: list[str]) -> str:
    if "--help" in words:
        return ""
    try:
        command.make_context(name, words, parent=parent)
    except click.ClickException as error:
        if not shown.is_whole and isinstance(error, click.MissingParameter | click.BadOptionUsage):
            return ""
        return f"{shown}: {error.format_message()}"
    return ""
