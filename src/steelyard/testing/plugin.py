"""The pytest plug-in: fixtures `mq`, `mq_async`, `mq_cluster`, `mq_external`. pytest finds it by itself.

It imports nothing of ours before a fixture is used: tests of something else pay for this file alone.
"""

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from steelyard.testing.external_cluster import ExternalMq
    from steelyard.testing.mq import Mq, MqAsync

_MARKER_HELP = (
    "mq(brokers=1, name_servers=1, leaks=True): the cluster of a test; leaks: fail if the test leaves a client open"
)
_ENVIRONMENT = "STEELYARD_TEST_CLUSTER"
_failed_key = pytest.StashKey[bool]()
_cluster_key: "pytest.StashKey[Mq]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of the command line and of the project."""
    _skip_assert_rewriting(pluginmanager)
    group = parser.getgroup("steelyard", "a message queue in a test")
    group.addoption(
        "--mq-external", metavar="HOST:PORT", help="the name server of an existing cluster, for mq_external"
    )
    group.addoption("--mq-brokers", metavar="N", type=int, help="the number of brokers of mq and mq_cluster")
    parser.addini("mq_external", "the name server of an existing cluster, for mq_external", default="")
    parser.addini("mq_brokers", "the number of brokers of mq and mq_cluster", default="1")
    parser.addini("mq_leaks", "whether a test fails that leaves a client of mq open", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARKER_HELP)


@pytest.fixture
def mq(request: pytest.FixtureRequest) -> "Iterator[Mq]":
    """Start a cluster for one test: real brokers on free ports, new and empty.

    Clients of any language connect to ``mq.address``. A test that leaves a client connected fails with its name:
    ``@pytest.mark.mq(leaks=False)`` allows it, and ``mq_leaks = false`` allows it everywhere.
    """
    from steelyard.testing.mq import Mq

    _exempt_from_freezegun()
    settings = _settings(request)
    made = Mq(settings["brokers"], settings["name_servers"])
    stash = request.node.stash
    stash[_cluster_key], stash[_failed_key] = made, False
    try:
        yield made
        if settings["leaks"] and not stash[_failed_key]:
            made.refuse_leaks()
    finally:
        made.stop()


@pytest.fixture
def mq_async(mq: "Mq") -> "MqAsync":
    """Start a cluster for one test that is a coroutine: ``await mq_async.send(…)``."""
    from steelyard.testing.mq import MqAsync

    return MqAsync(mq)


@pytest.fixture(scope="session")
def mq_cluster(request: pytest.FixtureRequest) -> "Iterator[Mq]":
    """Start one cluster for all tests of this process, for what takes long to set up.

    Nothing is deleted between tests, but faults end with the test that began them.
    """
    from steelyard.testing.mq import Mq

    _exempt_from_freezegun()
    made = request.config.stash[_cluster_key] = Mq(_broker_count(request.config))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def mq_external(request: pytest.FixtureRequest) -> "Iterator[ExternalMq]":
    """Connect to an existing cluster, in a namespace of the test: ``--mq-external host:port``. Without one, skip."""
    config = request.config
    given = config.getoption("--mq-external") or config.getini("mq_external") or os.environ.get(_ENVIRONMENT)
    if not given:
        pytest.skip(f"no cluster is given: --mq-external HOST:PORT, mq_external in the settings, or {_ENVIRONMENT}")
    from steelyard.testing.external_cluster import external

    with external(str(given)) as found:
        yield found


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison with a `HandledCount`."""
    # Looked up by name: the module is imported only by tests that use a fixture.
    module = sys.modules.get("steelyard.testing.cluster_under_test")
    if module is None:
        return None
    for side in (left, right):
        if isinstance(side, module.HandledCount):
            return [f"{left!r} {op} {right!r}", *side.explain()]
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults of the shared cluster, before tests close what they have opened."""
    shared = item.config.stash.get(_cluster_key, None)
    if shared is not None:
        shared.faults.heal()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, and add a summary of its cluster to the report.

    The cluster is found in the stash of the fixture: a project may have an `mq` of its own.
    """
    report = yield
    made = item.stash.get(_cluster_key, None)
    if made is not None and call.when != "teardown" and not report.passed:
        item.stash[_failed_key] = True
        if report.failed:
            report.sections.append(("What mq saw", made.summary()))
    return report


def _skip_assert_rewriting(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from recompiling all of our modules, which takes longer than importing them.

    It rewrites the asserts of every package with a plug-in, and we have none. There is no public way to switch that
    off; a pytest that keeps its list elsewhere is only slower.
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard(__name__.partition(".")[0])


def _exempt_from_freezegun() -> None:
    """Keep freezegun, if it is imported, from stopping the clocks of the cluster and its clients.

    A time that was frozen before, such as by a decorator, stops them nevertheless.
    """
    configure = getattr(sys.modules.get("freezegun"), "configure", None)
    if configure is not None:
        configure(extend_ignore_list=[__name__.partition(".")[0]])


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the settings of a test's cluster: of its marks, else of the project."""
    settings = {"brokers": _broker_count(request.config), "name_servers": 1, "leaks": request.config.getini("mq_leaks")}
    for mark in reversed(list(request.node.iter_markers("mq"))):
        unknown = [name for name in mark.kwargs if name not in settings]
        if unknown or mark.args:
            raise pytest.UsageError(f"@pytest.mark.mq takes {', '.join(settings)} by name, and not {mark!r}")
        settings.update(mark.kwargs)
    for name in ("brokers", "name_servers"):
        if type(settings[name]) is not int:
            raise pytest.UsageError(f"@pytest.mark.mq takes a whole number of {name}, and not {settings[name]!r}")
    return settings


def _broker_count(config: pytest.Config) -> int:
    given = config.getoption("--mq-brokers")
    try:
        return int(config.getini("mq_brokers") if given is None else given)
    except ValueError:
        raise pytest.UsageError(f"mq_brokers is a whole number, and not {config.getini('mq_brokers')!r}") from None
