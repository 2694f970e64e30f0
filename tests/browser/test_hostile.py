"""What users send is shown as text, exactly, whatever it would like to be: in lists, by itself, and in the tail."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from steelyard import Message, Producer
from tests.browser.hostile import HOSTILE, hostile_word, shown_start, shown_text
from tests.browser.stage import BrowserStage

_TOPIC = "hostile"

# Nothing but our own boxes may be made inside what shows a text, and nothing that could run may be in the page's main.
_NOT_OURS = "script iframe object embed img video base link style meta math template marquee slot plaintext".split()
_STRANGERS = f"""() => [
  ...document.querySelectorAll("main :is({", ".join(_NOT_OURS)})"),
  ...document.querySelectorAll("main bdi *:not(span.unseen)"),
  ...document.querySelectorAll("main pre.hex *"),
  ...[...document.querySelectorAll("main *")].filter((each) => each.getAttributeNames().some(
    (name) => name.startsWith("on"))),
].map((each) => each.outerHTML.slice(0, 200))"""
_RAN = "() => [window.ran, ({}).polluted, Object.prototype.hasOwnProperty('polluted')]"
_GO = """(to) => { history.pushState(null, "", to); dispatchEvent(new Event("steelyard:moved")); }"""


@pytest.fixture
def sent(stage: BrowserStage) -> Iterator[list[Any]]:
    """Send them all, with keys, tags and properties of the same kind."""
    with Producer(stage.namesrv) as producer:
        yield [producer.send(_message(number, body)) for number, body in enumerate(HOSTILE)]


def _message(number: int, body: bytes) -> Message:
    word = hostile_word(number)
    return Message(_TOPIC, body, tags=word, keys=[word, f"k{number}"], properties={f"p{word}": word})


def _assert_harmless(page: Page) -> None:
    assert page.evaluate(_STRANGERS) == []
    assert page.evaluate(_RAN) == [None, None, False]


def _texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.eval_on_selector_all(selector, "all => all.map((each) => each.textContent)")
    return found


def test_two_hundred_hostile_bodies_are_text_in_a_list(stage: BrowserStage, sent: list[Any]) -> None:
    assert len(set(HOSTILE)) == 200
    page = stage.open(f"/messages?topic={_TOPIC}&count=500")
    page.on("dialog", lambda dialog: stage.complaints.append(f"dialog: {dialog.message}"))
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("tbody tr")).to_have_count(len(sent))
    _assert_harmless(page)
    shown = dict(zip(_texts(page, "tbody td:nth-child(6)"), _texts(page, "tbody td:nth-child(7) bdi"), strict=True))
    tags = _texts(page, "tbody td:nth-child(5)")
    for number, body in enumerate(HOSTILE):
        word = hostile_word(number)
        assert word in tags
        assert shown[f"{word} k{number}"] == shown_start(body), number


def test_two_hundred_hostile_bodies_are_text_by_themselves(stage: BrowserStage, sent: list[Any]) -> None:
    page = stage.open("/messages")
    page.on("dialog", lambda dialog: stage.complaints.append(f"dialog: {dialog.message}"))
    for number, (body, each) in enumerate(zip(HOSTILE, sent, strict=True)):
        place = f"{each.queue.broker}/{each.queue.queue_id}/{each.offset}"
        page.evaluate(_GO, f"/messages/{_TOPIC}/{place}?view=text")
        expect(page.locator("main h1")).to_have_text(place.replace("/", ":"))
        shown = page.locator("pre.body.text")
        shown.wait_for()
        assert shown.evaluate("each => each.textContent") == shown_text(body), number
        word = hostile_word(number)
        assert f"p{word}" in _texts(page, "[role=region][aria-label=Properties] tbody th")
        assert word in _texts(page, "[role=region][aria-label=Properties] tbody td:nth-child(2)")
        page.get_by_role("button", name="Hex").click()
        first = page.locator("pre.body.hex").evaluate("each => each.textContent")
        assert first.startswith("00000000  " + body[:8].hex(" "))
        _assert_harmless(page)


def test_hostile_json_is_set_out_as_it_was_written(stage: BrowserStage, sent: list[Any]) -> None:
    chosen = [place for place, body in enumerate(HOSTILE) if body.startswith((b'{"__proto__', b'{"lone', b'{"big'))]
    assert len(chosen) == 3
    page = stage.open("/messages")
    for number in chosen:
        each = sent[number]
        place = f"{each.queue.broker}/{each.queue.queue_id}/{each.offset}"
        page.evaluate(_GO, f"/messages/{_TOPIC}/{place}")
        expect(page.locator("main h1")).to_have_text(place.replace("/", ":"))
        shown = page.locator("pre.body.json").evaluate("each => each.textContent")
        assert "".join(shown.split()) == "".join(HOSTILE[number].decode().split())
        _assert_harmless(page)


def test_hostile_messages_are_text_in_the_tail(stage: BrowserStage) -> None:
    stage.send(_TOPIC, "first")
    page = stage.open(f"/messages?topic={_TOPIC}&tail=1")
    page.on("dialog", lambda dialog: stage.complaints.append(f"dialog: {dialog.message}"))
    page.locator(".tail[data-state=live]").wait_for()
    with Producer(stage.namesrv) as producer:
        for number, body in enumerate(HOSTILE):
            producer.send(_message(number, body))
    expect(page.locator(".tail")).to_have_attribute("data-received", str(len(HOSTILE)))
    rows = page.locator(".tail-rows")
    seen: dict[str, str] = {}
    for top in range(0, 30 * len(HOSTILE), 300):
        rows.evaluate("(each, top) => { each.scrollTop = top; each.dispatchEvent(new Event('scroll')); }", top)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        keys, starts = _texts(page, "tr.message td:nth-child(5)"), _texts(page, "tr.message td:nth-child(6) bdi")
        seen |= dict(zip(keys, starts, strict=True))
        _assert_harmless(page)
    assert len(seen) == len(HOSTILE)
    for number, body in enumerate(HOSTILE):
        assert seen[f"{hostile_word(number)} k{number}"] == shown_start(body), number
