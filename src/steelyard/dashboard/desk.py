"""What every part of the page works with: the administrator's client, what is watched, and where the cluster is."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from steelyard.client.admin.admin import Admin
from steelyard.client.connect import DEFAULT_ADDRESS, Connect
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.watching import Watches
from steelyard.model.measures import Family

__all__ = ["Desk", "LocalMeasures"]

LocalMeasures = Callable[[], Awaitable[list[Family]]]
"""What measures a cluster that runs in this process; to be awaited on the page's loop."""


@dataclass(slots=True)
class Desk:
    """The page's side of a cluster. All of it belongs to the page's loop."""

    admin: Admin
    connect: Connect
    options: PageOptions
    local_measures: LocalMeasures | None = None
    """Set where the cluster runs in this process."""
    watches: Watches = field(default_factory=Watches)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the page stops: streams end then."""
    working: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that outlives the question that began it; the page's end waits for it to end."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What parts of the page keep from one question to the next, by a name of their own."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that has something to close when it is cancelled, whatever becomes of who began it."""
        task = asyncio.get_running_loop().create_task(work)
        self.working.add(task)
        task.add_done_callback(self.working.discard)
        return task

    async def close(self) -> None:
        """End everything that goes on, and wait for it."""
        await self.watches.close()
        tasks = list(self.working)
        for task in tasks:
            if not task.cancelling():  # once more would interrupt what it closes
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.admin.close()

    def command(self, *words: object) -> str:
        """Return the command line that does the same as the page, ready to be pasted into a shell.

        Words that are None are left out, and so is what stands before them if that is an option.
        """
        line = ["steelyard"]
        for word in words:
            if word is None:
                if line[-1].startswith("--"):
                    line.pop()
            else:
                line.append(str(word))
        where, options = str(self.connect), list[str]()
        if where != DEFAULT_ADDRESS:
            options += ["--namesrv", where]
        if self.connect.namespace:
            options += ["--namespace", self.connect.namespace]
        # Two dashes end the options.
        at = line.index("--") if "--" in line else len(line)
        line[at:at] = options
        return shlex.join(line)
