"""The pytest plug-in: fixtures `mq`, `mq_async`, `mq_cluster`, `mq_external`. pytest finds it by itself.

It loads nothing of ours before a fixture is used: who has Steelyard installed and tests something else pays for this
file alone.
"""

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from steelyard.testing.awaiting import MqAsync
    from steelyard.testing.elsewhere import ExternalMq
    from steelyard.testing.mq import Mq

__all__ = [
    "mq",
    "mq_async",
    "mq_cluster",
    "mq_external",
    "pytest_addoption",
    "pytest_assertrepr_compare",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_runtest_teardown",
]

_MARK = "mq(brokers=1, name_servers=1, leaks=True): how the cluster of a test is; leaks: whether it may leave no client"
_ENVIRONMENT = "STEELYARD_TEST_CLUSTER"
_failed = pytest.StashKey[bool]()
_made: "pytest.StashKey[Mq]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, for the command line and for the settings of a project."""
    _leave_us_as_we_are(pluginmanager)
    group = parser.getgroup("steelyard", "a message queue in a test")
    group.addoption(
        "--mq-external", metavar="HOST:PORT", help="the name server of a cluster that is there, for mq_external"
    )
    group.addoption("--mq-brokers", metavar="N", type=int, help="how many brokers a cluster has: of mq and mq_cluster")
    parser.addini("mq_external", "the name server of a cluster that is there, for mq_external", default="")
    parser.addini("mq_brokers", "how many brokers a cluster has: of mq and mq_cluster", default="1")
    parser.addini("mq_leaks", "whether a test with mq fails that leaves a client open", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _MARK)


@pytest.fixture
def mq(request: pytest.FixtureRequest) -> "Iterator[Mq]":
    """Give the test a cluster of its own: real brokers on free ports, fresh and empty.

    ``mq.address`` is where clients of any language find it. A test that leaves a client connected fails, and is told
    which: ``@pytest.mark.mq(leaks=False)`` allows it, and ``mq_leaks = false`` allows it everywhere.
    """
    from steelyard.testing.mq import Mq

    _let_our_clocks_go()
    settings = _settings(request)
    made = Mq(settings["brokers"], settings["name_servers"])
    stash = request.node.stash
    stash[_made], stash[_failed] = made, False
    try:
        yield made
        if settings["leaks"] and not stash[_failed]:
            made.refuse_leaks()
    finally:
        made.stop()


@pytest.fixture
def mq_async(mq: "Mq") -> "MqAsync":
    """Give a test that is a coroutine a cluster of its own: ``await mq_async.send(…)``."""
    from steelyard.testing.awaiting import MqAsync

    return MqAsync(mq)


@pytest.fixture(scope="session")
def mq_cluster(request: pytest.FixtureRequest) -> "Iterator[Mq]":
    """Give all tests of this process one cluster, for what takes long to set up.

    Nothing is emptied between tests, but faults end with the test that has begun them.
    """
    from steelyard.testing.mq import Mq

    _let_our_clocks_go()
    made = request.config.stash[_made] = Mq(_brokers(request.config))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def mq_external(request: pytest.FixtureRequest) -> "Iterator[ExternalMq]":
    """Give the test a cluster that is there, under names of its own: ``--mq-external host:port``. Without one, skip."""
    config = request.config
    given = config.getoption("--mq-external") or config.getini("mq_external") or os.environ.get(_ENVIRONMENT)
    if not given:
        pytest.skip(f"no cluster is given: --mq-external HOST:PORT, mq_external in the settings, or {_ENVIRONMENT}")
    from steelyard.testing.elsewhere import external

    with external(str(given)) as found:
        yield found


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say what happened, where a number of ours is compared with another one."""
    counts = sys.modules.get("steelyard.testing.counts")
    if counts is None:
        return None
    for side in (left, right):
        if isinstance(side, counts.Count):
            return [f"{left!r} {op} {right!r}", *side.explain()]
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults of a cluster that tests share, before they close what they have opened."""
    shared = item.config.stash.get(_made, None)
    if shared is not None:
        shared.faults.heal()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, and add to its report what its cluster saw.

    The cluster is found by what the fixture left: a project may well have an `mq` of its own.
    """
    report = yield
    made = item.stash.get(_made, None)
    if made is not None and call.when != "teardown" and not report.passed:
        item.stash[_failed] = True
        if report.failed:
            report.sections.append(("What mq saw", made.summary()))
    return report


def _leave_us_as_we_are(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from compiling all of our modules anew, which takes longer than loading them.

    It does so for every package that brings a plug-in, to have its asserts explained: ours are in users' tests. There
    is no other way to say so; a pytest that keeps its list elsewhere is only slower.
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard(__name__.partition(".")[0])


def _let_our_clocks_go() -> None:
    """Keep freezegun, if somebody has loaded it, from stopping the cluster and its clients with the test's own clock.

    A time that was frozen before, such as by a decorator, stops them nevertheless.
    """
    configure = getattr(sys.modules.get("freezegun"), "configure", None)
    if configure is not None:
        configure(extend_ignore_list=[__name__.partition(".")[0]])


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return how the cluster of a test is to be: as its marks say, else as the project does."""
    settings = {"brokers": _brokers(request.config), "name_servers": 1, "leaks": request.config.getini("mq_leaks")}
    for mark in reversed(list(request.node.iter_markers("mq"))):
        unknown = [name for name in mark.kwargs if name not in settings]
        if unknown or mark.args:
            raise pytest.UsageError(f"@pytest.mark.mq takes {', '.join(settings)} by name, and not {mark!r}")
        settings.update(mark.kwargs)
    for name in ("brokers", "name_servers"):
        if type(settings[name]) is not int:
            raise pytest.UsageError(f"@pytest.mark.mq takes a whole number of {name}, and not {settings[name]!r}")
    return settings


def _brokers(config: pytest.Config) -> int:
    given = config.getoption("--mq-brokers")
    try:
        return int(config.getini("mq_brokers") if given is None else given)
    except ValueError:
        raise pytest.UsageError(f"mq_brokers is a whole number, and not {config.getini('mq_brokers')!r}") from None
