"""A topic for a run: the one that was named, or one of the run's own, which is gone when it is over."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from steelyard.cli.frame.screen import note

if TYPE_CHECKING:
    from steelyard.client.connect import Connect

__all__ = ["topic_for"]


@asynccontextmanager
async def topic_for(where: "Connect", named: str | None, queues: int) -> AsyncIterator[str]:
    """Use a topic that is there, or make one and delete it."""
    from steelyard.client.admin import Admin

    async with Admin(where) as admin:
        if named is not None:
            await admin.topic(named)
            yield named
            return
        own = f"steelyard-bench-{secrets.token_hex(4)}"
        await admin.create_topic(own, queues)
        try:
            yield own
        finally:
            await admin.delete_topic(own)
            note(f"topic {own} was made for this, and is deleted")
