"""A thousand topics and two hundred groups: the overview is there at once, and lists can be used.

Run with ``-s`` to see the figures: they are printed, not asserted, since they are those of the whole machine.
"""

from collections.abc import Iterator
from statistics import median

import pytest
from playwright.sync_api import Page, expect

from tests.browser.many_groups import ManyGroups
from tests.browser.stage import BrowserStage

_TOPICS, _GROUPS = 1_000, 200
_LOADS = 7
_MOST_ASKED = 3
_ASKED = "performance.getEntriesByType('resource').filter((each) => each.transferSize > 0).map((each) => each.name)"
"""What the browser did not have yet."""

_WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector("main .facts dd")) return;
  watch.disconnect();
  requestAnimationFrame(() => { window.drawnAfter = performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when the numbers were drawn, in milliseconds since the browser began to go there."""


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


def test_the_overview_of_a_large_cluster_is_there_at_once(crowd: BrowserStage) -> None:
    page = crowd.open("/")
    expect(page.get_by_text("polling:")).to_have_count(0)
    facts = page.locator("main .facts")
    expect(facts).to_contain_text("1,000")
    expect(facts).to_contain_text("200")
    page.add_init_script(_WATCH)
    loads = [_drawn_after_ms(page, crowd.dashboard.address) for _ in range(_LOADS)]
    fresh = []
    for _ in range(3):
        # A window of its own has nothing in its cache.
        other = crowd.context().new_page()
        other.add_init_script(_WATCH)
        fresh.append(_drawn_after_ms(other, crowd.dashboard.url))
    print(
        f"\noverview of {_TOPICS} topics and {_GROUPS} groups, from going there to numbers: {median(loads):.0f} ms "
        f"({min(loads):.0f} to {max(loads):.0f}); first page of a browser: {median(fresh):.0f} ms"
    )
    asked = [address for address in page.evaluate(_ASKED) if "/api/" in address]
    assert len(asked) <= _MOST_ASKED, asked
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
