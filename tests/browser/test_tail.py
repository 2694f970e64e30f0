"""The live tail in a browser: five hundred messages a second for half a minute, with pause and resume."""

import threading
import time
from typing import Any

import pytest
from playwright.sync_api import Page as Sheet
from playwright.sync_api import expect
from tests.browser.stage import Stage

from steelyard import Admin, Message, Producer

_TOPIC = "ticks"
_PER_SECOND = 500
_SECONDS = 30
_ALL = _PER_SECOND * _SECONDS
_KEPT = 5_000
_MOST_ROWS_DRAWN = 60
_MOST_GROWTH = 12 << 20
_LONGEST_STILL_MS = 2_000

# How long the page did nothing else: the longest time between two turns of a timer.
_WATCH_STILLNESS = """() => {
  let last = performance.now();
  window.still = 0;
  setInterval(() => {
    const now = performance.now();
    window.still = Math.max(window.still, now - last);
    last = now;
  }, 50);
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


def _open(stage: Stage, more: str = "") -> Sheet:
    with Admin(stage.namesrv) as admin:
        if _TOPIC not in [topic.name for topic in admin.topics()]:
            admin.create_topic(_TOPIC, 4)
    sheet = stage.open(f"/messages?topic={_TOPIC}&tail=1{more}")
    sheet.locator(".tail[data-state=live]").wait_for()
    return sheet


def _number(sheet: Sheet, name: str) -> int:
    return int(sheet.locator(".tail").get_attribute(f"data-{name}") or -1)


def _heap(sheet: Sheet) -> int:
    """Return how many bytes a browser's page holds, once what it does not need is gone."""
    line = sheet.context.new_cdp_session(sheet)
    line.send("HeapProfiler.collectGarbage")
    used: Any = line.send("Runtime.getHeapUsage")
    line.detach()
    return int(used["usedSize"])


def _ticks(sheet: Sheet) -> list[int]:
    """Return the numbers of the messages that are drawn."""
    texts = sheet.eval_on_selector_all("tr.message td:nth-child(6)", "all => all.map((each) => each.textContent)")
    return [int(text.removeprefix('{"tick": ').removesuffix("}")) for text in texts]


def _until(sheet: Sheet, name: str, least: int, timeout_ms: int = 60_000) -> None:
    sheet.wait_for_function(
        "([name, least]) => Number(document.querySelector('.tail').dataset[name]) >= least",
        arg=[name, least],
        timeout=timeout_ms,
    )


@pytest.mark.timeout(180)
def test_five_hundred_messages_a_second_for_half_a_minute_with_pause_and_resume(stage: Stage) -> None:
    sheet = _open(stage)
    sheet.evaluate(_WATCH_STILLNESS)
    sender = Sender(stage.namesrv, _ALL, _PER_SECOND)
    sender.start()
    # As many are kept as ever will be: from here on the heap must not grow.
    _until(sheet, "received", _KEPT + 1_000)
    heap = _heap(sheet)

    sheet.locator("main h1").click()
    sheet.keyboard.press("Space")
    expect(sheet.locator(".tail")).to_have_attribute("data-state", "paused")
    drawn, kept = _ticks(sheet), _number(sheet, "kept")
    _until(sheet, "held", 1_000)
    assert _ticks(sheet) == drawn
    assert _number(sheet, "kept") == kept
    expect(sheet.get_by_text("messages came meanwhile")).to_be_visible()
    sheet.keyboard.press("Space")
    expect(sheet.locator(".tail-said")).to_contain_text("It went on from where it was paused, with")
    expect(sheet.locator(".tail")).to_have_attribute("data-state", "live")
    assert _number(sheet, "held") == 0

    sheet.get_by_role("button", name="Pause").click()
    _until(sheet, "held", 500)
    sheet.get_by_role("button", name="Go on from now").click()
    expect(sheet.locator(".tail-said")).to_contain_text("that came meanwhile are not shown")

    _until(sheet, "received", _ALL)
    sender.join()
    assert sender.sent == _ALL
    assert _number(sheet, "received") == _ALL
    assert _number(sheet, "skipped") == 0
    assert _number(sheet, "kept") == _KEPT
    last = _ticks(sheet)
    assert max(last) == _ALL - 1
    assert 10 <= len(last) <= _MOST_ROWS_DRAWN
    assert _heap(sheet) - heap < _MOST_GROWTH
    assert sheet.evaluate("window.still") < _LONGEST_STILL_MS
    sheet.get_by_role("link", name="Overview").click()
    expect(sheet.locator(".tail")).to_have_count(0)


def test_all_rows_that_are_kept_can_be_scrolled_to(stage: Stage) -> None:
    sheet = _open(stage)
    Sender(stage.namesrv, 400, 2_000).start()
    _until(sheet, "received", 400)
    box, seen = sheet.locator(".tail-rows"), set[int]()
    for top in range(0, 30 * 400, 400):
        box.evaluate("(each, top) => { each.scrollTop = top; each.dispatchEvent(new Event('scroll')); }", top)
        sheet.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen |= set(_ticks(sheet))
    assert seen == set(range(400))


def test_who_reads_further_up_stays_there(stage: Stage) -> None:
    sheet = _open(stage)
    stage.send(_TOPIC, *(b'{"tick": %d}' % number for number in range(100)))
    _until(sheet, "received", 100)
    box = sheet.locator(".tail-rows")
    box.evaluate("each => { each.scrollTop = 300; }")
    expect(sheet.locator("tr.message").first).to_have_attribute("aria-rowindex", "6")
    before = _ticks(sheet)
    stage.send(_TOPIC, *(b'{"tick": %d}' % number for number in range(100, 200)))
    _until(sheet, "received", 200)
    assert _ticks(sheet) == before


def test_a_tail_is_filtered_and_the_filter_stands_in_the_address(stage: Stage) -> None:
    sheet = _open(stage)
    form = sheet.get_by_role("search", name="Live tail")
    form.get_by_label("Key").fill("k7")
    form.get_by_label("Text in the body").fill("TICK")
    form.get_by_role("button", name="Follow").click()
    sheet.wait_for_url("**key=k7**")
    sheet.locator(".tail[data-state=live]").wait_for()
    Sender(stage.namesrv, 300, 1_000).start()
    _until(sheet, "received", 3)
    expect(sheet.locator("tr.message")).to_have_count(3)
    assert _ticks(sheet) == [7, 107, 207]


def test_a_tail_follows_on_any_cluster(any_stage: Stage) -> None:
    sheet = _open(any_stage)
    sender = Sender(any_stage.namesrv, 3_000, 500)
    sender.start()
    _until(sheet, "received", 300)
    sheet.get_by_role("button", name="Pause").click()
    _until(sheet, "held", 200)
    sheet.get_by_role("button", name="Go on from where it was paused").click()
    _until(sheet, "kept", 3_000)
    assert _number(sheet, "received") == 3_000
    assert _number(sheet, "skipped") == 0
    sender.join()
    with Admin(any_stage.namesrv) as admin:
        assert admin.topic_groups(_TOPIC) == []
