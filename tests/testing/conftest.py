"""What tests of the plug-in share: no bytecode is kept of the test files that they write."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile anew what is written anew: a file of the same size and second would be taken for the one before."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
