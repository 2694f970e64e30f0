"""The HTTP server of the dashboard, in a thread of its own, so that no broker waits for a browser.

with Dashboard("localhost:9876") as dashboard:
    print(dashboard.url)
"""

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from steelyard.client.config import ClientConfig, NamesrvOrConfig
from steelyard.dashboard.options import DASHBOARD_PORT, DashboardOptions, kept_token
from steelyard.errors import CannotListen, MissingExtra
from steelyard.net.event_loop import new_event_loop
from steelyard.net.server import TcpListener

if TYPE_CHECKING:
    import uvicorn

    from steelyard.dashboard.context import DashboardContext, LocalMetrics

_log = logging.getLogger("steelyard.dashboard")

_SHUTDOWN_TIMEOUT_S = 1
_MAX_CONCURRENCY = 400


def is_installed() -> bool:
    """Say whether the packages that serve the dashboard are installed."""
    return find_spec("starlette") is not None and find_spec("uvicorn") is not None


class Dashboard:
    """The dashboard of one cluster. Use it as a context manager, or call `start` and `stop`.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
    ...     dashboard.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        namesrv: NamesrvOrConfig = None,
        options: DashboardOptions | None = None,
        *,
        local_metrics: "LocalMetrics | None" = None,
    ) -> None:
        """Bind the port at once, so that the address is known before anything is served."""
        self.options = options or DashboardOptions()
        self._listener = _bind_port(self.options)
        self._folder: Path | None = None
        self.set_cluster(namesrv, local_metrics)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._context: DashboardContext | None = None
        self._stopped = threading.Event()

    @property
    def address(self) -> str:
        """Its URL without the token."""
        return f"http://{self._listener.address}/"

    @property
    def url(self) -> str:
        """Its URL with the token: opening it signs in."""
        return self.link("")

    def link(self, path: str) -> str:
        """Return the URL of a view such as ``groups/billing``, with the token."""
        return f"{self.address}{path.lstrip('/')}?token={self.options.token}"

    def set_cluster(self, namesrv: NamesrvOrConfig, local_metrics: "LocalMetrics | None" = None) -> None:
        """Set the cluster to show, for callers that bind the port first; before `start`."""
        self._client_config = ClientConfig.of(namesrv)
        self._local_metrics = local_metrics

    def keep_in(self, folder: Path, *, with_token: bool) -> None:
        """Keep in a folder what should survive a restart, also the token unless one was given; before `start`."""
        self._folder = folder
        if with_token:
            self.options = replace(self.options, token=kept_token(folder, self.options.token))

    def start(self) -> Self:
        """Serve it in a thread; requests that arrive before it is ready wait."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="steelyard-dashboard", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving, and end all streams."""
        self._stopped.set()
        loop, context, server = self._loop, self._context, self._server
        if loop is not None and context is not None and server is not None:
            with suppress(RuntimeError):  # it may have ended by itself
                loop.call_soon_threadsafe(context.closing.set)
                server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._listener.close()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except Exception:
            _log.exception("the dashboard ended with a bug")
            self._listener.close()  # so that clients are refused at once instead of waiting

    async def _serve(self) -> None:
        # Imported here: loading takes a while, and the cluster is ready before.
        import uvicorn

        from steelyard.client.admin.admin import Admin
        from steelyard.dashboard.app import make_app
        from steelyard.dashboard.connection_limits import BrowserConnection
        from steelyard.dashboard.context import DashboardContext
        from steelyard.dashboard.rate_history import RateHistory, keep_sampling

        self._loop = asyncio.get_running_loop()
        context = self._context = DashboardContext(
            Admin(self._client_config),
            self._client_config,
            self.options,
            self._local_metrics,
            RateHistory(self._folder),
        )
        sampling = context.spawn(keep_sampling(context.admin, context.rates))
        config = uvicorn.Config(
            make_app(context, self._listener.port),
            http=BrowserConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any program of this machine could forge its address with them
            limit_concurrency=_MAX_CONCURRENCY,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        )
        server = self._server = uvicorn.Server(config)
        try:
            if not self._stopped.is_set():
                await server.serve(sockets=[self._listener.accepting_socket])
        finally:
            sampling.cancel()
            await context.close()


def _bind_port(options: DashboardOptions) -> TcpListener:
    """Bind the port that was given; else the default one, and any free one if that is taken."""
    if not is_installed():
        raise MissingExtra("dashboards", extra="dashboard")
    if options.port is not None:
        return TcpListener.bind(options.host, options.port)
    try:
        return TcpListener.bind(options.host, DASHBOARD_PORT)
    except CannotListen:
        return TcpListener.bind(options.host, 0)
