"""What every API module works with: the admin client, shared polls, caches and the address of the cluster."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from steelyard.client.admin.admin import Admin
from steelyard.client.config import DEFAULT_NAMESRV, ClientConfig
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.polling import SharedPolls
from steelyard.dashboard.rate_history import RateHistory
from steelyard.metrics.families import MetricFamily

LocalMetrics = Callable[[], Awaitable[list[MetricFamily]]]
"""Collects the metrics of a cluster that runs in this process; awaited on the dashboard's loop."""


@dataclass(slots=True)
class DashboardContext:
    """The dashboard's side of a cluster. All of it belongs to the dashboard's loop."""

    admin: Admin
    client_config: ClientConfig
    options: DashboardOptions
    local_metrics: LocalMetrics | None = None  # set where the cluster runs in this process
    rates: RateHistory = field(default_factory=RateHistory)
    polls: SharedPolls = field(default_factory=SharedPolls)
    closing: asyncio.Event = field(default_factory=asyncio.Event)  # set when the dashboard stops: streams end then
    background_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that outlives the request that began it; `close` waits for it."""
    cache: dict[str, Any] = field(default_factory=dict)
    """What API modules keep from one request to the next, each under its own key."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that must close something when it is cancelled, even if the request that began it is gone."""
        task = asyncio.get_running_loop().create_task(work)
        self.background_tasks.add(task)
        task.add_done_callback(self.background_tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all polls and tasks, wait for them, and close the admin client."""
        await self.polls.close()
        tasks = list(self.background_tasks)
        for task in tasks:
            if not task.cancelling():  # a second cancel would interrupt its cleanup
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.admin.close()

    def command(self, *words: object) -> str:
        """Return a command line, ready to be pasted into a shell.

        A word that is None is left out, and so is the option before it.
        """
        line = ["steelyard"]
        for word in words:
            if word is None:
                if line[-1].startswith("--"):
                    line.pop()
            else:
                line.append(str(word))
        namesrv, options = str(self.client_config), list[str]()
        if namesrv != DEFAULT_NAMESRV:
            options += ["--namesrv", namesrv]
        if self.client_config.namespace:
            options += ["--namespace", self.client_config.namespace]
        # Two dashes end the options.
        at = line.index("--") if "--" in line else len(line)
        line[at:at] = options
        return shlex.join(line)
