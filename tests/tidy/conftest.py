"""What all rules share: the project's tree, read by one worker, once, and forgotten after the last of them."""

import gc
from pathlib import Path

import pytest

from tests.tidy.tree import modules, texts

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests are put into groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the rules into one worker."""
    for item in items:
        if item.path.parent == _HERE and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("tidy"))


def pytest_runtest_setup() -> None:
    """Let the garbage collector rest: it would look through the syntax trees again and again, and find nothing."""
    gc.disable()


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Forget the tree after the last rule."""
    gc.enable()
    if nextitem is None or nextitem.path.parent != _HERE:
        modules.cache_clear()
        texts.cache_clear()
