"""What all tests share: hypothesis draws the same examples in every run and is not hurried by a busy machine.

Tests with Spark share one session, so all of them run in the same process, and the first waits until Java is up.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("steelyard", deadline=None, derandomize=True)
settings.load_profile("steelyard")

_SPARK_S = 240


@pytest.hookimpl(tryfirst=True)  # who hands tests out looks at the marks, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with Spark together, and give them time."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_SPARK_S))


@pytest.fixture(autouse=True)
def _nobody_says_how_wide_it_is() -> None:
    """Forget how wide the terminal is that tests were started from.

    Readline, which other libraries load, puts that into the environment behind Python's back, where children find it.
    """
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
        os.unsetenv(name)
