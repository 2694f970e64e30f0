"""Dead letters in a real browser: found, looked at, sent again after a preview, and handled."""

import re

from playwright.sync_api import expect

from steelyard import Admin
from tests.browser.stage import BrowserStage
from tests.dashboard.group_scenes import check_command, give_up, run_members
from tests.live.clusters import EMBEDDED, chosen
from tests.live.handled import Handled

_HOSTILE = b"<script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def test_a_dead_letter_is_sent_again_and_handled(stage: BrowserStage) -> None:
    give_up(stage.namesrv, "billing", "orders", b'{"order": 1}', b"\xff\x00")
    handled = Handled()
    with run_members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
        page = stage.open("/dead-letters")
        page.get_by_role("row", name="billing").get_by_role("link").click()
        row = page.get_by_role("row", name='{"order": 1}')
        expect(row).to_contain_text("key-0")
        expect(row).to_contain_text("ValueError: no")
        row.locator("button.link").click()
        whole = page.get_by_role("dialog", name="Dead letter")
        expect(whole.locator("dl").first).to_contain_text("ValueError: no")
        expect(whole.get_by_text("Resent", exact=True)).to_have_count(0)
        expect(whole).to_contain_text("billing gave it up after one attempt; it allows 0 retries")
        origin = whole.get_by_role("link", name="orders").get_attribute("href") or ""
        assert origin.startswith("/messages/orders/broker-")
        expect(whole.locator("pre.body")).to_contain_text('"order": 1')
        assert check_command(whole.locator(".command code").text_content() or "")[:3] == [
            "dead-letters",
            "show",
            "billing",
        ]
        whole.get_by_role("button", name="Resend").click()
        preview = page.get_by_role("dialog", name="Resend to billing")
        expect(preview).to_contain_text("1 dead letter would be redelivered to billing")
        words = check_command(preview.locator(".command code").text_content() or "")
        assert words[:4] == ["dead-letters", "resend", "billing", "--id"]
        assert not handled.messages
        preview.get_by_role("button", name="Resend").click()
        expect(preview.locator(".done")).to_contain_text("1 dead letter was redelivered to billing")
        handled.wait(1)
        assert handled.bodies == ['{"order": 1}']
        preview.locator(".row.end").get_by_role("button", name="Close").click()
        expect(whole.get_by_text("Resent", exact=True)).to_be_visible()


def test_some_and_all_are_sent_again(stage: BrowserStage) -> None:
    give_up(stage.namesrv, "billing", "orders", b"one", b"two", b"three")
    handled = Handled()
    with run_members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
        page = stage.open("/groups/billing/dead-letters")
        for body in ("one", "three"):
            page.get_by_role("row", name=body).get_by_role("checkbox").check()
        page.get_by_role("button", name="Resend selected (2)").click()
        preview = page.get_by_role("dialog")
        expect(preview.locator(".letters li")).to_have_count(2)
        preview.get_by_role("button", name="Cancel").click()
        expect(preview).to_be_hidden()
        page.get_by_role("button", name="Resend selected (2)").click()
        preview.get_by_role("button", name="Resend").click()
        expect(preview.locator(".done")).to_contain_text("2 dead letters were redelivered to billing")
        handled.wait(2)
        assert sorted(handled.bodies) == ["one", "three"]
        preview.locator(".row.end").get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Resend all").click()
        expect(preview).to_contain_text("3 dead letters would be redelivered to billing")
        assert "--all" in check_command(preview.locator(".command code").text_content() or "")
        preview.get_by_role("button", name="Resend").click()
        handled.wait(5)


def test_a_hostile_dead_letter_is_text(stage: BrowserStage) -> None:
    give_up(stage.namesrv, "billing", "orders", _HOSTILE)
    page = stage.open("/groups/billing/dead-letters")
    expect(page.locator("tbody tr")).to_contain_text("<script>")
    page.locator("button.link").click()
    assert page.locator("pre.body").text_content() == _HOSTILE.decode()
    assert page.title() != "taken"
    expect(page).to_have_url(re.compile("id="))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("id="))


def test_a_group_that_gave_nothing_up_reports_it(stage: BrowserStage) -> None:
    expect(stage.open("/dead-letters").locator("main")).to_contain_text("No group has dead letters")
    with Admin(stage.namesrv) as admin:
        admin.groups.create("billing")
        page = stage.open("/groups/billing/dead-letters")
        expect(page.locator("main")).to_contain_text("billing has no dead letters")


def test_dead_letters_of_any_cluster_are_shown_and_sent_again(any_stage: BrowserStage) -> None:
    topic, group = "dead-orders", "dead-billing"
    give_up(any_stage.namesrv, group, topic, b"sad")
    handled = Handled()
    with run_members(any_stage.namesrv, group, topic, "till-1", handle=handled):
        page = any_stage.open("/dead-letters")
        page.get_by_role("row", name=group).get_by_role("link").click()
        page.get_by_role("row", name="sad").locator("button.link").click()
        whole = page.get_by_role("dialog", name="Dead letter")
        expect(whole.locator("pre.body")).to_have_text("sad")
        # Apache's brokers take no error with a send-back.
        why = "ValueError: no" if chosen() == EMBEDDED else "it does not say why its last attempt failed"
        expect(whole).to_contain_text(why)
        expect(whole.get_by_role("link", name=topic)).to_be_visible()
        whole.get_by_role("button", name="Resend").click()
        preview = page.get_by_role("dialog", name="Resend to")
        expect(preview).to_contain_text("1 dead letter would be redelivered")
        expect(preview.get_by_text("move it straight back")).to_have_count(0 if chosen() == EMBEDDED else 1)
        preview.get_by_role("button", name="Resend").click()
        expect(preview.locator(".done")).to_contain_text("1 dead letter was redelivered")
        handled.wait(1)
