"""Which event loop servers and clients run on: uvloop's if it is installed, at about half the cost of a small read."""

import asyncio
from importlib.util import find_spec

__all__ = ["new_loop"]


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
