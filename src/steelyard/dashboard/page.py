"""The page as it runs: an HTTP server in a thread of its own, so that no broker waits for a browser.

with Page("localhost:9876") as page:
    print(page.url)
"""

import asyncio
import logging
import threading
from contextlib import suppress
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

from steelyard.client.connect import Connect, Where
from steelyard.dashboard.options import PAGE_PORT, PageOptions
from steelyard.errors import CannotListen, MissingExtra
from steelyard.net.listener import Listener
from steelyard.net.loops import new_loop

if TYPE_CHECKING:
    import uvicorn

    from steelyard.dashboard.desk import Desk, LocalMeasures

__all__ = ["Page", "can_be_served"]

_log = logging.getLogger("steelyard.page")

_GOODBYE_S = 1
_MOST_LINES = 400


def can_be_served() -> bool:
    """Say whether what the page is served with is installed."""
    return find_spec("starlette") is not None and find_spec("uvicorn") is not None


class Page:
    """A page for one cluster. Use it as a context, or call `start` and `stop`.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as cluster, Page(cluster.namesrv, PageOptions(port=0)) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self, where: Where = None, options: PageOptions | None = None, *, local_measures: "LocalMeasures | None" = None
    ) -> None:
        """Describe a page. Its port is taken at once, so that its address can be told before anybody is served."""
        self.options = options or PageOptions()
        self._listener = _take_port(self.options)
        self.look_at(where, local_measures)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._desk: Desk | None = None
        self._over = threading.Event()

    @property
    def address(self) -> str:
        """Where it is, without the token."""
        return f"http://{self._listener.address}/"

    @property
    def url(self) -> str:
        """The address that lets whoever opens it in."""
        return self.link("")

    def link(self, path: str) -> str:
        """Return the address of one of its views, as ``groups/billing``, that lets whoever opens it in."""
        return f"{self.address}{path.lstrip('/')}?token={self.options.token}"

    def look_at(self, where: Where, local_measures: "LocalMeasures | None" = None) -> None:
        """Say which cluster it shows, for who could not know it when the port was taken; before it is started."""
        self._connect = Connect.of(where)
        self._local_measures = local_measures

    def start(self) -> Self:
        """Serve it, in a thread; whoever asks before it is ready waits a moment."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="steelyard-page", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End it, with all that is streamed."""
        self._over.set()
        loop, desk, server = self._loop, self._desk, self._server
        if loop is not None and desk is not None and server is not None:
            with suppress(RuntimeError):  # it may have ended by itself
                loop.call_soon_threadsafe(desk.closing.set)
                server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._listener.close()

    def __enter__(self) -> Self:
        """Serve it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve())
        except Exception:
            _log.exception("the page ended with a bug")
            self._listener.close()  # whoever asks is told at once that nobody is here

    async def _serve(self) -> None:
        # Here and not above: it takes a while to load, and the cluster is ready before.
        import uvicorn

        from steelyard.client.admin.admin import Admin
        from steelyard.dashboard.app import make_app
        from steelyard.dashboard.desk import Desk
        from steelyard.dashboard.lines import PatientLine

        self._loop = asyncio.get_running_loop()
        desk = self._desk = Desk(Admin(self._connect), self._connect, self.options, self._local_measures)
        config = uvicorn.Config(
            make_app(desk, self._listener.port),
            http=PatientLine,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody on this machine could be anybody else by them
            limit_concurrency=_MOST_LINES,
            timeout_graceful_shutdown=_GOODBYE_S,
        )
        server = self._server = uvicorn.Server(config)
        try:
            if not self._over.is_set():
                await server.serve(sockets=[self._listener.socket])
        finally:
            await desk.close()


def _take_port(options: PageOptions) -> Listener:
    """Take the page's port: the one that was asked for, or the usual one and, if somebody has that, any."""
    if not can_be_served():
        raise MissingExtra("pages", extra="page")
    if options.port is not None:
        return Listener.bind(options.host, options.port)
    try:
        return Listener.bind(options.host, PAGE_PORT)
    except CannotListen:
        return Listener.bind(options.host, 0)
