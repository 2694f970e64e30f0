"""A cluster, its page, and a real browser that looks at it; whatever the browser complains of fails the test."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Response

from steelyard import Message, Producer
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster

_WIDTH, _HEIGHT = 1360, 900


class BrowserStage:
    """What a browser test plays on: ``stage.open("/groups/billing")`` gives a playwright page that is let in."""

    def __init__(self, browser: Browser, dashboard: Dashboard, cluster: Cluster | None, namesrv: str) -> None:
        self.browser, self.dashboard, self.cluster, self.namesrv = browser, dashboard, cluster, namesrv
        self.complaints: list[str] = []
        """What browsers said on their consoles, and answers that were not good."""
        self.expected: set[int] = set()
        """Statuses that this test provokes on purpose."""
        self._contexts: list[BrowserContext] = []

    def context(self, **settings: Any) -> BrowserContext:
        """Make a browser window of its own, with its own cookies; ``color_scheme``, ``locale`` … as playwright's."""
        viewport = settings.pop("viewport", {"width": _WIDTH, "height": _HEIGHT})
        context = self.browser.new_context(viewport=viewport, **settings)
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        return context

    def open(self, path: str = "/", *, prepare: Callable[[Page], None] | None = None, **settings: Any) -> Page:
        """Open a path of the page in a new window, let in by the token; ``prepare`` it before anything is loaded."""
        page = self.context(**settings).new_page()
        if prepare is not None:
            prepare(page)
        page.on("console", self._heard)
        page.on("pageerror", self._broke)
        page.on("response", self._answered)
        joint = "&" if "?" in path else "?"
        page.goto(f"{self.dashboard.address.rstrip('/')}{path}{joint}token={self.dashboard.options.token}")
        page.locator("main h1").first.wait_for()
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # A status that was expected is said on the console, too.
        if message.type in ("error", "warning") and not (self.expected and "Failed to load resource" in message.text):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _broke(self, error: Error) -> None:
        self.complaints.append(f"script: {error}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.complaints.append(f"{response.status} for {response.url}")

    def send(self, topic: str, *bodies: bytes | str, **fields: Any) -> None:
        """Send some messages."""
        with Producer(self.namesrv) as producer:
            for body in bodies:
                producer.send(Message(topic, body.encode() if isinstance(body, str) else body, **fields))

    def close(self) -> None:
        """Close all windows."""
        for context in self._contexts:
            context.close()
