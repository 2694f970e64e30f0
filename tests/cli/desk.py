"""A desk at which verbs are typed in tests: each answer with its code, and as a program or a person reads it."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from steelyard.cli.main import main

__all__ = ["Answer", "Desk", "desk_at"]


class Answer(NamedTuple):
    """What a verb said."""

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


Desk = Callable[..., Answer]
"""Types a verb and gives its answer."""


def desk_at(namesrv: str, capsys: pytest.CaptureFixture[str]) -> Desk:
    """Return a desk for a cluster."""

    def type_in(*words: str) -> Answer:
        code = main([*words, "--namesrv", namesrv])
        return Answer(code, *capsys.readouterr())

    return type_in
