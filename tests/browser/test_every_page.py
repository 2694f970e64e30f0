"""Every page of a busy cluster: nobody's screen reader stumbles (axe-core), and pictures of them for the documentation.

With STEELYARD_PICTURES the pictures are put where the documentation has them; without, they are made and thrown away.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from steelyard import Admin, ClientConfig, Consumer, Message, Producer
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.consumer.received_message import ReceivedMessage
from tests.browser.stage import BrowserStage
from tests.live.clusters import until

_FOUND = find_spec("axe_playwright_python")
_AXE = Path(_FOUND.origin if _FOUND is not None and _FOUND.origin else "axe").with_name("axe.min.js")
_SLOW_S, _PAUSE_S = (0.3, 4.0) if os.environ.get("STEELYARD_PICTURES") else (0.0, 0.0)
"""For pictures: how long a handler takes, and how long members stay as they are."""
_PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "dashboard"
_PICTURED = frozenset({"group", "plan", "tail"})
"""The pages that the documentation shows, light and dark."""

_PAGES = {
    "topics": "/topics",
    "topic": "/topics/orders",
    "groups": "/groups",
    "group": "/groups/billing",
    "plan": "/groups/billing/plan",
    "offsets": "/groups/billing/offsets",
    "dead-letters": "/groups/billing/dead-letters",
    "all-dead-letters": "/dead-letters",
    "messages": "/messages?topic=orders",
    "message": "/messages/orders/broker-0/0/0",
    "tail": "/messages?topic=orders&tail=1",
    "producers": "/producers",
    "brokers": "/brokers",
    "overview": "/",
}


def _handled(message: ReceivedMessage) -> None:
    time.sleep(_SLOW_S)  # so that there is something to see
    if b"bad" in message.body:
        raise ValueError("no such customer")


@contextmanager
def _shop(stage: BrowserStage) -> Iterator[Producer]:
    """Open a shop: orders are sent, billed by three members, and some of them cannot be."""
    with ExitStack() as open_ones:
        admin = open_ones.enter_context(Admin(stage.namesrv))
        for topic, queues in (("orders", 4), ("payments", 2), ("clicks", 8)):
            admin.topics.create(topic, queues)
        admin.groups.create("billing", retries=0)
        producer = open_ones.enter_context(Producer(stage.namesrv, group="shop", avoid_slow_brokers=True))
        for number, members in ((1, 1), (2, 2), (3, 2), (4, 3)):
            consumer = Consumer(ClientConfig(stage.namesrv, name=f"bill-{number}"), group="billing", start_from="first")
            consumer.handles("orders")(_handled)
            open_ones.enter_context(consumer)
            _until_shared(admin, members)
            time.sleep(_PAUSE_S)
            if number == 2:
                consumer.close()
                _until_shared(admin, 1)
                time.sleep(_PAUSE_S)
        for number in range(4_000 if _SLOW_S else 200):
            word = "bad" if number % 50 == 7 else "paid"
            body = json.dumps({"id": number, "state": word, "amount": number * 7}).encode()
            producer.send(Message("orders", body, tags=word, keys=f"order-{number}"))
        for number in range(60):
            producer.send(Message("clicks", f"click {number}".encode(), keys=f"visitor-{number % 3}"))
        yield producer


def _until_shared(admin: Admin, members: int) -> None:
    """Wait until so many members have all queues."""
    until(lambda: _is_shared(admin.groups.describe("billing"), members), f"{members} members have all queues")


def _is_shared(view: GroupDescription, members: int) -> bool:
    return len(view.members) == members and bool(view.queues) and all(each.owner for each in view.queues)


def _settled(page: Page) -> None:
    """Wait until a page shows what it has to show."""
    expect(page.get_by_text("Loading…")).to_have_count(0)
    page.wait_for_load_state("load")


def _findings(page: Page) -> list[str]:
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(stage: BrowserStage, tmp_path: Path, scheme: str) -> None:
    with _shop(stage) as producer:
        findings = {}
        stage.open("/", color_scheme=scheme)  # while somebody looks, the past is kept
        for name, path in _PAGES.items():
            producer.send_many([Message("payments", b"paid") for _ in range(60)])
            page = stage.open(path, color_scheme=scheme, viewport={"width": 1280, "height": 1000})
            if name == "tail":
                page.locator(".tail[data-state=live]").wait_for()
                producer.send_many([Message("orders", f'{{"id": {1000 + number}}}'.encode()) for number in range(20)])
                expect(page.get_by_text("1019")).to_be_visible()
            _settled(page)
            findings[name] = _findings(page)
            is_shown = name in _PICTURED and os.environ.get("STEELYARD_PICTURES")
            page.screenshot(path=(_PICTURES if is_shown else tmp_path) / f"{name}-{scheme}.png")
            page.context.close()
        assert not {name: found for name, found in findings.items() if found}


_WIDTHS = (390, 800, 1440)


@pytest.mark.parametrize("path", _PAGES.values(), ids=_PAGES)
def test_pages_fit_phones_tablets_and_desks(stage: BrowserStage, tmp_path: Path, path: str) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
        admin.groups.create("billing")
    stage.send("orders", b"one")
    stage.expected.add(404)  # where the message is not in the first queue
    page = stage.open(path, viewport={"width": _WIDTHS[0], "height": 800})
    _settled(page)
    for width in _WIDTHS:
        _check_fit(page, width, tmp_path / f"{width}.png")


@pytest.mark.parametrize(
    ("path", "button"),
    [
        ("/topics", "Create topic"),
        ("/topics/orders", "Send a message"),
        ("/topics/orders", "Settings"),
        ("/topics/orders", "Delete"),
    ],
)
def test_dialogs_fit_and_can_be_read_by_everybody(stage: BrowserStage, tmp_path: Path, path: str, button: str) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
    page = stage.open(path, viewport={"width": _WIDTHS[0], "height": 800})
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog")
    if button == "Delete":
        expect(dialog.locator(".command code")).to_be_visible()
    for width in _WIDTHS:
        _check_fit(page, width, tmp_path / f"{width}.png")
        assert dialog.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert not _findings(page)


def _check_fit(page: Page, width: int, picture: Path) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.screenshot(path=picture)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
