"""The live tail in a browser: five hundred messages a second for half a minute, with pause and resume."""

import threading
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from steelyard import Admin, Message, Producer
from tests.browser.stage import BrowserStage

_TOPIC = "ticks"
_PER_SECOND = 500
_SECONDS = 30
_ALL = _PER_SECOND * _SECONDS
_KEPT = 5_000
_MOST_ROWS_DRAWN = 60
_MOST_GROWTH = 12 << 20
_MOST_STEPS = 300
"""How often a batch may take the page through one place of its scripts: to draw a row takes it through some four times.

All rows that are kept are many more: a page that goes through them for each batch would stand still.
"""

# How many batches came.
_COUNT_BATCHES = """
window.batches = 0;
window.EventSource = class extends EventSource {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => { window.batches += 1; });
  }
};
"""

# How often the tail was drawn, and how many rows that touched at most.
_COUNT_DRAWING = """() => {
  window.drawing = { times: 0, rows: 0 };
  const watch = new MutationObserver((changes) => {
    const rows = new Set();
    const touch = (node) => {
      const row = (node.closest ? node : node.parentElement)?.closest("tr");
      if (row) rows.add(row);
      node.querySelectorAll?.("tr").forEach((each) => rows.add(each));
    };
    for (const change of changes) {
      if (change.type !== "childList") touch(change.target);
      for (const nodes of [change.addedNodes, change.removedNodes]) nodes.forEach(touch);
    }
    window.drawing.times += 1;
    window.drawing.rows = Math.max(window.drawing.rows, rows.size);
  });
  const all = { attributes: true, characterData: true, childList: true, subtree: true };
  watch.observe(document.querySelector(".tail"), all);
}"""


class Sender:
    """Sends so many messages a second, in a thread, and counts them."""

    def __init__(self, namesrv: str, count: int, per_second: int) -> None:
        self.sent = 0
        self._namesrv, self._count, self._per_second = namesrv, count, per_second
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait until all are sent."""
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._namesrv) as producer:
            began = time.monotonic()
            for number in range(self._count):
                # A pace, not a hope: who is late sends at once.
                time.sleep(max(0.0, began + number / self._per_second - time.monotonic()))
                producer.send(Message(_TOPIC, b'{"tick": %d}' % number, tags="tick", keys=f"k{number % 100}"))
                self.sent += 1


def _open(stage: BrowserStage, prepare: Callable[[Page], None] | None = None) -> Page:
    with Admin(stage.namesrv) as admin:
        if _TOPIC not in [topic.name for topic in admin.topics.list()]:
            admin.topics.create(_TOPIC, 4)
    page = stage.open(f"/messages?topic={_TOPIC}&tail=1", prepare=prepare)
    page.locator(".tail[data-state=live]").wait_for()
    return page


def _number(page: Page, name: str) -> int:
    return int(page.locator(".tail").get_attribute(f"data-{name}") or -1)


def _heap(page: Page) -> int:
    """Return how many bytes a browser's page holds, once what it does not need is gone."""
    line = page.context.new_cdp_session(page)
    line.send("HeapProfiler.collectGarbage")
    used: Any = line.send("Runtime.getHeapUsage")
    line.detach()
    return int(used["usedSize"])


class Steps:
    """Counts how often a page goes through each place of its scripts, and the batches that it gets."""

    def start(self, page: Page) -> None:
        """Count in a page that has loaded nothing: what was compiled before does not count itself."""
        page.add_init_script(_COUNT_BATCHES)
        self._line = page.context.new_cdp_session(page)
        self._line.send("Profiler.enable")
        self._line.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})

    def most(self) -> int:
        """Return the count of the busiest place of our own scripts."""
        counted: Any = self._line.send("Profiler.takePreciseCoverage")
        self._line.detach()
        return max(
            int(part["count"])
            for script in counted["result"]
            if "/js/" in script["url"]  # not those of vendors: they go through all that is drawn
            for function in script["functions"]
            for part in function["ranges"]
        )


def _ticks(page: Page) -> list[int]:
    """Return the numbers of the messages that are drawn."""
    texts = page.eval_on_selector_all("tr.message td:nth-child(6)", "all => all.map((each) => each.textContent)")
    return [int(text.removeprefix('{"tick": ').removesuffix("}")) for text in texts]


def _until(page: Page, name: str, least: int, timeout_ms: int = 60_000) -> None:
    page.wait_for_function(
        "([name, least]) => Number(document.querySelector('.tail').dataset[name]) >= least",
        arg=[name, least],
        timeout=timeout_ms,
    )


def test_five_hundred_messages_a_second_for_half_a_minute_with_pause_and_resume(stage: BrowserStage) -> None:
    steps = Steps()
    page = _open(stage, steps.start)
    page.evaluate(_COUNT_DRAWING)
    sender = Sender(stage.namesrv, _ALL, _PER_SECOND)
    sender.start()
    # As many are kept as ever will be: from here on the heap must not grow.
    _until(page, "received", _KEPT + 1_000)
    heap = _heap(page)

    page.locator("main h1").click()
    page.keyboard.press("Space")
    expect(page.locator(".tail")).to_have_attribute("data-state", "paused")
    drawn, kept = _ticks(page), _number(page, "kept")
    _until(page, "held", 1_000)
    assert _ticks(page) == drawn
    assert _number(page, "kept") == kept
    expect(page.get_by_text("messages arrived since")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.locator(".tail-notice")).to_contain_text("Resumed where it was paused, with")
    expect(page.locator(".tail")).to_have_attribute("data-state", "live")
    assert _number(page, "held") == 0

    page.get_by_role("button", name="Pause").click()
    _until(page, "held", 500)
    page.get_by_role("button", name="Resume from now").click()
    expect(page.locator(".tail-notice")).to_contain_text("that arrived since are not shown")

    _until(page, "received", _ALL)
    sender.join()
    assert sender.sent == _ALL
    assert _number(page, "received") == _ALL
    assert _number(page, "skipped") == 0
    assert _number(page, "kept") == _KEPT
    batches, drawing, most_steps = page.evaluate("window.batches"), page.evaluate("window.drawing"), steps.most()
    # A batch is drawn once, and perhaps once more when its rows were scrolled to; else it was paused, or resumed.
    assert 0 < drawing["times"] <= 2 * batches + 10
    assert 0 < drawing["rows"] <= 2 * _MOST_ROWS_DRAWN
    assert 0 < most_steps <= _ALL + _MOST_STEPS * batches
    last = _ticks(page)
    assert max(last) == _ALL - 1
    assert 10 <= len(last) <= _MOST_ROWS_DRAWN
    assert _heap(page) - heap < _MOST_GROWTH
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".tail")).to_have_count(0)


def test_all_rows_that_are_kept_can_be_scrolled_to(stage: BrowserStage) -> None:
    page = _open(stage)
    Sender(stage.namesrv, 400, 2_000).start()
    _until(page, "received", 400)
    box, seen = page.locator(".tail-rows"), set[int]()
    for top in range(0, 30 * 400, 400):
        box.evaluate("(each, top) => { each.scrollTop = top; each.dispatchEvent(new Event('scroll')); }", top)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen |= set(_ticks(page))
    assert seen == set(range(400))


def test_who_reads_further_up_stays_there(stage: BrowserStage) -> None:
    page = _open(stage)
    stage.send(_TOPIC, *(b'{"tick": %d}' % number for number in range(100)))
    _until(page, "received", 100)
    box = page.locator(".tail-rows")
    box.evaluate("each => { each.scrollTop = 300; }")
    expect(page.locator("tr.message").first).to_have_attribute("aria-rowindex", "6")
    before = _ticks(page)
    stage.send(_TOPIC, *(b'{"tick": %d}' % number for number in range(100, 200)))
    _until(page, "received", 200)
    assert _ticks(page) == before


def test_a_tail_is_filtered_and_the_filter_stands_in_the_address(stage: BrowserStage) -> None:
    page = _open(stage)
    form = page.get_by_role("search", name="Live tail")
    form.get_by_label("Key").fill("k7")
    form.get_by_label("Text in the body").fill("TICK")
    form.get_by_role("button", name="Tail").click()
    page.wait_for_url("**key=k7**")
    page.locator(".tail[data-state=live]").wait_for()
    Sender(stage.namesrv, 300, 1_000).start()
    _until(page, "received", 3)
    expect(page.locator("tr.message")).to_have_count(3)
    assert _ticks(page) == [7, 107, 207]


def test_a_tail_follows_on_any_cluster(any_stage: BrowserStage) -> None:
    page = _open(any_stage)
    sender = Sender(any_stage.namesrv, 3_000, 500)
    sender.start()
    _until(page, "received", 300)
    page.get_by_role("button", name="Pause").click()
    _until(page, "held", 200)
    page.get_by_role("button", name="Resume where it was paused").click()
    _until(page, "kept", 3_000)
    assert _number(page, "received") == 3_000
    assert _number(page, "skipped") == 0
    sender.join()
    with Admin(any_stage.namesrv) as admin:
        assert admin.topics.groups(_TOPIC) == []
