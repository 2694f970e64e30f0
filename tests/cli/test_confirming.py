"""Nothing is lost without a word: a person is asked at a terminal, a script says so in advance."""

import io
import sys

import pytest
import typer

from steelyard.cli.frame.confirming import confirm
from steelyard.errors import ConfigurationError


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Say that somebody sits there."""
        return True


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(ConfigurationError, match="3 messages would be gone; if that is wanted, say --yes"):
        confirm("3 messages would be gone", yes=False)
    confirm("3 messages would be gone", yes=True)


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y\n", True), ("YES\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_at_a_terminal_only_yes_goes_on(answer: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = _Terminal()
    monkeypatch.setattr(sys, "stdin", _Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said)
    if goes_on:
        confirm("3 messages would be gone", yes=False)
    else:
        with pytest.raises(typer.Exit) as left:
            confirm("3 messages would be gone", yes=False)
        assert left.value.exit_code == 1
        assert said.getvalue().endswith("nothing was changed\n")
    assert said.getvalue().startswith("3 messages would be gone. Go on? [y/N] ")
