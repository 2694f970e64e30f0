"""Run commands in tests, in this process: the result with its exit code, as text, JSON, CSV or table."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from steelyard.cli.main import main


class CommandResult(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """One JSON value."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """A JSON value a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def csv(self) -> list[dict[str, str]]:
        """The rows of a CSV, by column."""
        return list(csv.DictReader(io.StringIO(self.out)))

    @property
    def table(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]


RunCommand = Callable[..., CommandResult]
"""Runs a command and returns its result."""


def run_command_at(namesrv: str, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Return a function that runs commands on a cluster."""

    def type_in(*words: str) -> CommandResult:
        code = main([*words, "--namesrv", namesrv])
        return CommandResult(code, *capsys.readouterr())

    return type_in
