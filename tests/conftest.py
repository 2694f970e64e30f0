"""What all tests share: default signals for children, lanes, and nothing left behind."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests import forkserver
from tests.intervals import tenth_of_the_intervals, whole_intervals
from tests.lanes import Lanes
from tests.latency_clock import advance
from tests.leftovers import Leftovers
from tests.packaging.building import Built, build
from tests.spark.sessions import spark

__all__ = ["advance", "spark", "tenth_of_the_intervals", "whole_intervals"]


def pytest_configure(config: pytest.Config) -> None:
    """Give children the default signal handlers, and start the suite's own plug-ins."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # Started in the background, as by nohup, a process ignores these, and its children would, too. They do not
        # inherit a handler, and with one that does nothing this process still ignores the signal.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    config.pluginmanager.register(Lanes(config))
    config.pluginmanager.register(Leftovers(config))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the wheel and the sdist, once for all in the group `packaging`."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session", autouse=True)
def _nobody_forks_any_more() -> Iterator[None]:
    """End the fork server with the last test, if one was started."""
    yield
    forkserver.stop()


@pytest.fixture(autouse=True)
def _nobody_says_how_wide_it_is() -> None:
    """Forget how wide the terminal is that tests were started from.

    Readline, which other libraries load, puts that into the environment behind Python's back, where children find it.
    """
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
        os.unsetenv(name)
