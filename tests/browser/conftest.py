"""Real Chromium, driven by Playwright. These tests run when asked for by name, as `make browser` does.

`stage` is a cluster of ours and its page, fresh for each test. `any_stage` is one cluster for all tests, which is
Apache's if STEELYARD_LIVE says so: what is tested on it has to hold for both. Where there is no Chromium all of them
are skipped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.browser.chromium import find
from tests.browser.stage import BrowserStage
from tests.interop.jars import NotReady
from tests.live.clusters import Live, chosen, running

_HERE = Path(__file__).parent
_TIMEOUT_S = 600
"""Ends what hangs. A test that is only slow, on a machine that does other things, goes on."""
_PATIENCE_MS = 60_000
"""How long to wait for what has to come: no test is about how soon that is on a busy machine."""
_FLAGS = (
    "--no-sandbox",  # CI is root, for whom Chromium has no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out unless it, or something in it, was asked for: it needs a browser."""
    asked = ((config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(_HERE) for path in asked) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give browser tests time."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once."""
    found = find()
    if found is None:
        pytest.skip(
            "there is no Chromium here: install it (Debian: apt install chromium), or say where: STEELYARD_CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        expect.set_options(timeout=_PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def stage(browser: Browser) -> Iterator[BrowserStage]:
    """Run a cluster of two brokers with its page; afterwards no browser may have complained of anything."""
    with Cluster(brokers=2) as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
        yield from _played(BrowserStage(browser, dashboard, cluster, cluster.namesrv))


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Run one cluster for all tests: ours, or Apache's if STEELYARD_LIVE names it."""
    try:
        with running(chosen(), tmp_path_factory.mktemp("live")) as cluster:
            yield cluster
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture
def any_stage(browser: Browser, live: Live) -> Iterator[BrowserStage]:
    """Run the page of that one cluster."""
    with Dashboard(live.namesrv, DashboardOptions(port=0)) as dashboard:
        yield from _played(BrowserStage(browser, dashboard, None, live.namesrv))


def _played(stage: BrowserStage) -> Iterator[BrowserStage]:
    try:
        yield stage
    finally:
        stage.close()
    assert not stage.complaints
