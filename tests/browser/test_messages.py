"""The page of messages: found in each way, one by itself, and handled again."""

import re
import time
from datetime import datetime, timedelta
from queue import Queue
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from steelyard import Admin, Consumer, Message, Producer
from tests.browser.stage import BrowserStage
from tests.waiting import until

_TOPIC = "orders"
_PATIENCE_S = 60


@pytest.fixture
def sent(stage: BrowserStage) -> list[Any]:
    """Send thirty orders."""
    return _send(stage)


def _send(stage: BrowserStage, topic: str = _TOPIC) -> list[Any]:
    """Send thirty orders, the last one a millisecond after the others: of two queues' messages the newer one is it."""
    with Producer(stage.namesrv) as producer:
        results = [producer.send(_order(topic, number)) for number in range(29)]
        sent_ms = time.time_ns() // 1_000_000
        until(lambda: time.time_ns() // 1_000_000 > sent_ms, "the clock goes on")
        return [*results, producer.send(_order(topic, 29))]


def _order(topic: str, number: int) -> Message:
    return Message(
        topic,
        f'{{"order": {number}, "note": "number {number} of thirty"}}'.encode(),
        tags="paid" if number % 3 else "open",
        keys=[f"order-{number}"],
        properties={"region": "eu"},
    )


def _ask(page: Page, way: str, **fields: str) -> None:
    """Fill in the form and send it."""
    form = page.get_by_role("search", name="Search")
    form.get_by_role("button", name=way, exact=True).click()
    for name, value in fields.items():
        field = form.locator(f"[name={name}]")
        field.select_option(value) if name in ("queue", "count") else field.fill(value)
    form.get_by_role("button", name="Search", exact=True).click()


def _found(page: Page) -> Any:
    return page.get_by_role("region", name="Messages found").locator("tbody tr")


def test_messages_are_found_in_each_way(stage: BrowserStage, sent: list[Any]) -> None:
    page = stage.open("/messages")
    _ask(page, "Newest", topic=_TOPIC)
    expect(_found(page)).to_have_count(30)
    expect(_found(page).first).to_contain_text("order-29")

    _ask(page, "Newest", tag="open")
    expect(_found(page)).to_have_count(10)
    _ask(page, "Newest", tag="", text="NUMBER 7 OF")
    expect(_found(page)).to_have_count(1)
    expect(_found(page)).to_contain_text("order-7")

    chosen = sent[12]
    _ask(page, "Offset", text="", queue=f"{chosen.queue.broker}:{chosen.queue.queue_id}", offset=str(chosen.offset))
    expect(_found(page).first).to_contain_text("order-12")

    _ask(page, "Time", **{"queue": "", "from": "10 minutes ago"})
    expect(_found(page)).to_have_count(30)
    _ask(page, "Time", until="5 minutes ago")
    expect(page.get_by_text("No message matches.")).to_be_visible()

    _ask(page, "Key", **{"key": "order-21", "from": "", "until": ""})
    expect(_found(page)).to_have_count(1)
    expect(_found(page)).to_contain_text("number 21 of thirty")

    _ask(page, "Id", id=chosen.message_id)
    expect(_found(page)).to_contain_text("order-12")
    _ask(page, "Id", id=chosen.offset_id, topic="")
    expect(_found(page)).to_contain_text("order-12")


@pytest.mark.usefixtures("sent")
def test_what_was_asked_for_stands_in_the_address(stage: BrowserStage) -> None:
    page = stage.open(f"/messages?topic={_TOPIC}")
    expect(_found(page)).to_have_count(30)
    _ask(page, "Time", **{"from": f"{datetime.now().astimezone() - timedelta(hours=1):%Y-%m-%d %H:%M}", "tag": "open"})
    expect(_found(page)).to_have_count(10)
    assert "by=time" in page.url
    again = stage.open(page.url.removeprefix(stage.dashboard.address.rstrip("/")))
    expect(_found(again)).to_have_count(10)
    page.go_back()
    expect(_found(page)).to_have_count(30)


def test_a_link_shows_everything_of_one_message(stage: BrowserStage, sent: list[Any]) -> None:
    page = stage.open(f"/messages?topic={_TOPIC}&by=key&key=order-21")
    _found(page).get_by_role("link").click()
    chosen = sent[21]
    place = f"{chosen.queue.broker}:{chosen.queue.queue_id}:{chosen.offset}"
    expect(page.locator("main h1")).to_have_text(place)
    body = page.locator("pre.body")
    assert body.evaluate("each => each.textContent") == '{\n  "order": 21,\n  "note": "number 21 of thirty"\n}'
    page.get_by_role("button", name="Text").click()
    expect(body).to_have_text('{"order": 21, "note": "number 21 of thirty"}')
    page.get_by_role("button", name="Hex").click()
    expect(body).to_contain_text('00000000  7b 22 6f 72 64 65 72 22  3a 20 32 31 2c 20 22 6e  {"order": 21, "n')
    assert page.url.endswith("view=hex")
    expect(page.get_by_role("region", name="Properties").get_by_role("row", name="region eu sender")).to_be_visible()
    expect(page.get_by_text(f"steelyard message show --topic {_TOPIC} --at {place}")).to_be_visible()
    expect(page.get_by_text("No group consumes this topic.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == b'{"order": 21, "note": "number 21 of thirty"}'
    alone = stage.open(page.url.removeprefix(stage.dashboard.address.rstrip("/")))
    expect(alone.locator("pre.body.hex")).to_be_visible()


def test_json_is_shown_with_letters_for_its_escapes(stage: BrowserStage) -> None:
    kept = r'"kept": "\u0000 \u0022 \u005c \ud83d \\u4f60 \n"'
    body = r'{"name": "\u4f60\u597d", "smile": "\ud83d\ude00", ' + kept + ', "id": 10000000000000000001}'
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1, brokers=["broker-0"])
    stage.send("orders", body)
    page = stage.open("/messages/orders/broker-0/0/0")
    shown = page.locator("pre.body.json")
    assert shown.evaluate("each => each.textContent").splitlines() == [
        "{",
        '  "name": "你好",',
        '  "smile": "😀",',
        f"  {kept},",
        '  "id": 10000000000000000001',
        "}",
    ]
    page.get_by_role("button", name="Text").click()
    expect(page.locator("pre.body.text")).to_contain_text(r"\u4f60\u597d")


def test_a_message_that_is_gone_is_said_to_be(stage: BrowserStage, sent: list[Any]) -> None:
    stage.expected.add(404)
    page = stage.open(f"/messages/{_TOPIC}/{sent[0].queue.broker}/0/9999")
    expect(page.get_by_role("alert")).to_contain_text("has no message at offset 9999")


def test_a_member_handles_a_message_again(stage: BrowserStage, sent: list[Any]) -> None:
    handled: Queue[str] = Queue()
    consumer = Consumer(stage.namesrv, group="billing", start_from="first")

    @consumer.handles(_TOPIC)
    def handle(message: Any) -> None:
        handled.put(message.keys[0])

    chosen = sent[5]
    with consumer:
        for _ in sent:
            handled.get(timeout=_PATIENCE_S)
        page = stage.open(f"/messages/{_TOPIC}/{chosen.queue.broker}/{chosen.queue.queue_id}/{chosen.offset}")
        expect(page.get_by_role("region", name="Consumer groups")).to_contain_text("billing")
        again = page.locator("section", has=page.get_by_role("heading", name="Redeliver"))
        again.get_by_label("Group").fill("billing")
        again.get_by_role("button", name="Preview").first.click()
        expect(again.get_by_text("would handle it now")).to_be_visible()
        expect(again.locator(".command code")).to_contain_text("steelyard message redeliver")
        assert handled.empty()
        again.get_by_role("button", name="Redeliver").click()
        expect(again.get_by_text(re.compile("took .*done"))).to_be_visible()
        assert handled.get(timeout=_PATIENCE_S) == "order-5"


def test_a_copy_is_sent_after_a_preview(stage: BrowserStage, sent: list[Any]) -> None:
    chosen = sent[5]
    page = stage.open(f"/messages/{_TOPIC}/{chosen.queue.broker}/{chosen.queue.queue_id}/{chosen.offset}")
    again = page.locator("section", has=page.get_by_role("heading", name="Redeliver"))
    again.get_by_role("button", name="Preview").last.click()
    expect(again.get_by_text("A copy of 42 B would be sent to orders")).to_be_visible()
    again.get_by_role("button", name="Send the copy").click()
    again.locator("p.good a").click()
    expect(page.locator("pre.body")).to_contain_text('"number 5 of thirty"')
    expect(page.locator("main h1")).not_to_have_text(f"{chosen.queue.broker}:{chosen.queue.queue_id}:{chosen.offset}")


def test_messages_are_found_and_shown_on_any_cluster(any_stage: BrowserStage) -> None:
    topic = "page-messages"
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create(topic, 4)
    sent = _send(any_stage, topic)
    page = any_stage.open(f"/messages?topic={topic}")
    expect(_found(page)).to_have_count(30)
    for way, fields in {
        "Time": {"from": "10 minutes ago", "tag": "open"},
        "Key": {"key": "order-21", "from": ""},
        "Id": {"id": sent[12].message_id},
        "Newest": {"tag": "", "text": "number 21 of"},
    }.items():
        _ask(page, way, **fields)
        expect(_found(page)).to_have_count(10 if way == "Time" else 1)
    _found(page).get_by_role("link").click()
    expect(page.locator("pre.body")).to_contain_text("number 21 of thirty")
    expect(page.get_by_text("No group consumes this topic.")).to_be_visible()
    expect(page.get_by_role("region", name="Not reported by this cluster")).to_be_visible()
