"""Every test of connections runs on Python's own event loop and on uvloop's."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

_LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=_LOOPS)
def make_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes a loop."""
    return _LOOPS[request.param]
