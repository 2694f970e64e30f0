"""A thousand topics and two hundred groups: the overview is there at once, and lists can be used.

At once means without work for it: everything was polled before, and nothing is polled for one more browser. Run with
``-s`` to see how long it takes: that is printed, not asserted, since it is a matter of the whole machine.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, expect

from steelyard.broker.broker import BrokerCore
from steelyard.nameserver.name_server import NameServerCore
from steelyard.net.server import Replies
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Peer
from tests.browser.many_groups import ManyGroups
from tests.browser.stage import BrowserStage
from tests.dashboard.http_client import stream

_TOPICS, _GROUPS = 1_000, 200
_LOADS = 7
_BROWSERS = 3
_ASKED = "performance.getEntriesByType('resource').filter((each) => each.transferSize > 0).map((each) => each.name)"
"""What the browser did not have yet."""

_WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector("main .facts dd")) return;
  watch.disconnect();
  requestAnimationFrame(() => { window.drawnAfter = performance.now(); });
}).observe(document, { childList: true, subtree: true });
window.heard = [];
window.EventSource = class extends EventSource {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", (event) => window.heard.push(event.data));
  }
};
"""
"""Notes when the numbers were drawn, in milliseconds since the browser began to go there, and what streams sent."""


_NEVER_MS = 10**9
_FIRST_ROUND = 3 * _TOPICS + 5 * _GROUPS + 50
"""Requests that it takes to poll everything once: two brokers and a name server are asked about each topic or group."""
_MOST_BYTES = 1_500
"""Of the first event; a quiet cluster of two brokers takes some 800, and one name of each topic 11,000."""
_OF_SERVERS = (RequestCode.REGISTER_BROKER, RequestCode.BROKER_HEARTBEAT)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what brokers and name servers are asked, but for what servers tell one another."""
    counts = Counter[str]()
    for kind in (BrokerCore, NameServerCore):
        monkeypatch.setattr(kind, "handle", _counted(kind.handle, counts))
    return counts


def _counted(handle: Callable[..., Replies], counts: Counter[str]) -> Callable[..., Replies]:
    def counted(core: object, command: Command, peer: Peer, now_ms: int) -> Replies:
        if not command.is_response and command.code not in _OF_SERVERS:
            counts[RequestCode(command.code).name] += 1
        return handle(core, command, peer, now_ms)

    return counted


@pytest.fixture
def crowd(stage: BrowserStage) -> Iterator[BrowserStage]:
    """Fill the cluster, and let somebody look until all groups were seen."""
    with ManyGroups(stage.namesrv) as crowd:
        crowd.create(_TOPICS, _GROUPS)
        yield stage


def _drawn_after_ms(page: Page, address: str) -> float:
    page.goto(address)
    page.locator("main .facts dd").first.wait_for()
    return float(page.evaluate("new Promise((done) => requestAnimationFrame(() => done(window.drawnAfter)))"))


def _asked(page: Page) -> list[str]:
    """Return a list that will hold the paths of the API that a page asks."""
    asked: list[str] = []

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if path.startswith("/api/"):
            asked.append(path)

    page.on("request", note)
    return asked


def _poll_once(crowd: BrowserStage, patch: pytest.MonkeyPatch) -> Page:
    """Show the overview in two windows until everything was polled once, and let nothing be polled again."""
    for period in ("_PERIOD_MS", "_LIST_POLL_MS", "_MEMBER_VIEW_POLL_MS"):
        patch.setattr(f"steelyard.dashboard.cluster_poller.{period}", _NEVER_MS)
    patch.setattr("steelyard.dashboard.cluster_poller._REQUESTS_PER_SECOND", 10_000)
    page, other = crowd.open("/"), crowd.open("/")
    with stream(crowd.dashboard, "/api/topics/live") as topics:
        next(each for each in topics if each["topics_seen_ms"] is not None)
    for each in (page, other):
        expect(each.locator("main .facts")).to_contain_text("1,000")
        expect(each.locator("main .facts")).to_contain_text("200")
        expect(each.get_by_text("polling:")).to_have_count(0)
    return page


def test_the_overview_of_a_large_cluster_is_there_at_once(
    crowd: BrowserStage, requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.clear()
    page = _poll_once(crowd, monkeypatch)
    assert _TOPICS < requests.total() <= _FIRST_ROUND, requests
    requests.clear()
    page.add_init_script(_WATCH)
    loads = [_drawn_after_ms(page, crowd.dashboard.address) for _ in range(_LOADS)]
    fresh = []
    for _ in range(_BROWSERS):
        # A window of its own has nothing in its cache.
        other = crowd.context().new_page()
        asked = _asked(other)
        other.add_init_script(_WATCH)
        fresh.append(_drawn_after_ms(other, crowd.dashboard.url))
        assert sorted(asked) == ["/api/about", "/api/overview/live"]
        first, *_ = other.evaluate("window.heard")
        assert len(first) <= _MOST_BYTES, first
        shown = json.loads(first)
        assert (shown["topics"], shown["groups"], shown["groups_seen"]) == (_TOPICS, _GROUPS, _GROUPS)
        expect(other.locator("main .facts")).to_contain_text("1,000")
    print(
        f"\noverview of {_TOPICS} topics and {_GROUPS} groups, from going there to numbers: {median(loads):.0f} ms "
        f"({min(loads):.0f} to {max(loads):.0f}); first page of a browser: {median(fresh):.0f} ms"
    )
    assert not requests
    assert not [address for address in page.evaluate(_ASKED) if "/static/edition" in address]


def test_lists_of_a_large_cluster_can_be_searched_and_sorted(crowd: BrowserStage) -> None:
    page = crowd.open("/topics")
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(100)
    page.keyboard.press("/")
    page.keyboard.type("topic-0777")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="topic-0777").click()
    expect(page.locator("main h1")).to_contain_text("topic-0777")
    expect(page.locator("main tbody").first.locator("tr")).to_have_count(8)
    page.goto(f"{crowd.dashboard.address}groups")
    expect(rows).to_have_count(100)
    page.keyboard.press("/")
    page.keyboard.type("group-123")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("topic-0617")
