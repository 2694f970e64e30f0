"""Command lines as pages show them: found, cut into words, and understood, without running them."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.docs.tree_of_commands import context_of, root
from tests.tidy.tree import fences

__all__ = ["Shown", "command_complaint", "shown_commands"]

_SHELLS = ("console", "sh", "bash", "shell")
_ENDS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "(", ")"}
_STANDS_FOR = "…"


class Shown(NamedTuple):
    """A command line on a page."""

    page: str
    line: int
    words: tuple[str, ...]
    """Without the word steelyard."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line} `steelyard {shlex.join(self.words)}`"


def shown_commands(page: str, text: str) -> Iterator[Shown]:
    """Find the command lines of a page that call steelyard, those behind a pipe as well."""
    for fence in fences(page, text):
        if fence.language not in _SHELLS:
            continue
        command, began = "", 0
        for number, line in enumerate(fence.text.splitlines(), start=fence.line + 1):
            if command:
                command += f" {line.strip()}"
            elif fence.language != "console" or line.startswith("$ "):
                command, began = line.removeprefix("$ "), number
            if command.endswith("\\"):
                command = command.removesuffix("\\")
                continue
            for words in _calls(command):
                yield Shown(page, began, words)
            command = ""


def _calls(command: str) -> Iterator[tuple[str, ...]]:
    """Cut a line of a shell into calls of steelyard."""
    if "steelyard" not in command:
        return
    cutter = shlex.shlex(command, posix=True, punctuation_chars="();<>|&")
    cutter.whitespace_split, cutter.commenters = True, "#"
    words: list[str] = []
    for word in (*cutter, ";"):
        if word in _ENDS or re.fullmatch(r"[();<>|&]+", word):
            while words and (
                re.match(r"[A-Z_]+=", words[0]) or words[0] in ("until", "while", "if", "do", "!", "then")
            ):
                words.pop(0)
            if words and words[0] in ("steelyard", ".venv/bin/steelyard"):
                yield tuple(words[1:])
            words = []
        else:
            words.append(word)


def command_complaint(shown: Shown) -> str:
    """Say what the command line does not know of what a page shows; nothing, if it knows all of it."""
    if any(_STANDS_FOR in word for word in shown.words):
        return ""
    command, words = root(), list(shown.words)
    context = context_of(command)
    known = ["steelyard"]
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            return "" if not words or words[0] in ("--help", "--version") else f"{shown} has no verb"
        found = command.commands.get(words[0])
        if found is None:
            return f"{shown}: `{' '.join(known)}` knows no {words[0]!r}; it knows {', '.join(command.commands)}"
        known.append(words.pop(0))
        command = found
    return _unread(shown, command, context, " ".join(known), words)


def _unread(shown: Shown, command: Any, parent: Any, name: str, words: list[str]) -> str:
    if "--help" in words:
        return ""
    try:
        command.make_context(name, words, parent=parent)
    except Exception as error:  # whatever it is, it is not what the page promises
        said = getattr(error, "format_message", error.__str__)()
        return f"{shown}: {said}"
    return ""
