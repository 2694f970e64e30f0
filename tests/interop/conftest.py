"""What the interop tests share: they run when asked for by name, with one Java process for each release."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop.jars import RELEASE_5, RELEASES
from tests.interop.peer import Peer, running

_HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out unless it, or something in it, was asked for: it needs Java and Maven."""
    asked = ((config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(_HERE) for path in asked) else True


@pytest.fixture(scope="session")
def peers() -> Iterator[dict[str, Peer]]:
    """Start a Java process for each release, and end them when all tests are done."""
    with ExitStack() as processes:
        yield {release: processes.enter_context(running(release)) for release in RELEASES}


@pytest.fixture(scope="session", params=RELEASES)
def java(request: pytest.FixtureRequest, peers: dict[str, Peer]) -> Peer:
    """Give the process of one release; a test that takes it runs with each of them."""
    return peers[request.param]


@pytest.fixture(scope="session")
def java_5(peers: dict[str, Peer]) -> Peer:
    """Give the process of the newer release, for what the older one does not have."""
    return peers[RELEASE_5]
