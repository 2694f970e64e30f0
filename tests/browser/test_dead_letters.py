"""Dead letters in a real browser: found, looked at, sent again after a preview, and handled."""

import re

from playwright.sync_api import expect
from tests.browser.stage import Stage
from tests.dashboard.scenes import check_command, give_up, members
from tests.live.clusters import EMBEDDED, chosen
from tests.live.handled import Handled

from steelyard import Admin

_HOSTILE = b"<script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def test_a_dead_letter_is_sent_again_and_handled(stage: Stage) -> None:
    give_up(stage.namesrv, "billing", "orders", b'{"order": 1}', b"\xff\x00")
    handled = Handled()
    with members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
        sheet = stage.open("/dead-letters")
        sheet.get_by_role("row", name="billing").get_by_role("link").click()
        row = sheet.get_by_role("row", name='{"order": 1}')
        expect(row).to_contain_text("key-0")
        row.locator("button.link").click()
        whole = sheet.get_by_role("dialog", name="Dead letter")
        expect(whole).to_contain_text("billing gave it up after one attempt; it allows 0 retries")
        origin = whole.get_by_role("link", name="orders").get_attribute("href") or ""
        assert origin.startswith("/messages/orders/broker-")
        expect(whole.locator("pre.body")).to_contain_text('"order": 1')
        assert check_command(whole.locator(".command code").text_content() or "")[:3] == [
            "dead-letters",
            "show",
            "billing",
        ]
        whole.get_by_role("button", name="Send again").click()
        preview = sheet.get_by_role("dialog", name="Send again to billing")
        expect(preview).to_contain_text("1 dead letter would be given to billing again")
        words = check_command(preview.locator(".command code").text_content() or "")
        assert words[:4] == ["dead-letters", "resend", "billing", "--id"]
        assert not handled.messages
        preview.get_by_role("button", name="Send again").click()
        expect(preview.locator(".done")).to_contain_text("1 dead letter was given to billing again")
        handled.wait(1)
        assert handled.bodies == ['{"order": 1}']


def test_some_and_all_are_sent_again(stage: Stage) -> None:
    give_up(stage.namesrv, "billing", "orders", b"one", b"two", b"three")
    handled = Handled()
    with members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
        sheet = stage.open("/groups/billing/dead-letters")
        for body in ("one", "three"):
            sheet.get_by_role("row", name=body).get_by_role("checkbox").check()
        sheet.get_by_role("button", name="Send chosen again (2)").click()
        preview = sheet.get_by_role("dialog")
        expect(preview.locator(".letters li")).to_have_count(2)
        preview.get_by_role("button", name="Cancel").click()
        expect(preview).to_be_hidden()
        sheet.get_by_role("button", name="Send chosen again (2)").click()
        preview.get_by_role("button", name="Send again").click()
        expect(preview.locator(".done")).to_contain_text("2 dead letters were given to billing again")
        handled.wait(2)
        assert sorted(handled.bodies) == ["one", "three"]
        preview.locator(".row.end").get_by_role("button", name="Close").click()
        sheet.get_by_role("button", name="Send all again").click()
        expect(preview).to_contain_text("3 dead letters would be given to billing again")
        assert "--all" in check_command(preview.locator(".command code").text_content() or "")
        preview.get_by_role("button", name="Send again").click()
        handled.wait(5)


def test_a_hostile_dead_letter_is_text(stage: Stage) -> None:
    give_up(stage.namesrv, "billing", "orders", _HOSTILE)
    sheet = stage.open("/groups/billing/dead-letters")
    expect(sheet.locator("tbody tr")).to_contain_text("<script>")
    sheet.locator("button.link").click()
    assert sheet.locator("pre.body").text_content() == _HOSTILE.decode()
    assert sheet.title() != "taken"
    expect(sheet).to_have_url(re.compile("id="))
    sheet.keyboard.press("Escape")
    expect(sheet.get_by_role("dialog")).to_be_hidden()
    expect(sheet).not_to_have_url(re.compile("id="))


def test_a_group_that_gave_nothing_up_says_so(stage: Stage) -> None:
    expect(stage.open("/dead-letters").locator("main")).to_contain_text("No group has given anything up")
    with Admin(stage.namesrv) as admin:
        admin.create_group("billing")
        sheet = stage.open("/groups/billing/dead-letters")
        expect(sheet.locator("main")).to_contain_text("billing has not given anything up")


def test_dead_letters_of_any_cluster_are_shown_and_sent_again(any_stage: Stage) -> None:
    topic, group = "dead-orders", "dead-billing"
    give_up(any_stage.namesrv, group, topic, b"sad")
    handled = Handled()
    with members(any_stage.namesrv, group, topic, "till-1", handle=handled):
        sheet = any_stage.open("/dead-letters")
        sheet.get_by_role("row", name=group).get_by_role("link").click()
        sheet.get_by_role("row", name="sad").locator("button.link").click()
        whole = sheet.get_by_role("dialog", name="Dead letter")
        expect(whole.locator("pre.body")).to_have_text("sad")
        expect(whole).to_contain_text("a dead letter does not say why its last attempt failed")
        expect(whole.get_by_role("link", name=topic)).to_be_visible()
        whole.get_by_role("button", name="Send again").click()
        preview = sheet.get_by_role("dialog", name="Send again to")
        expect(preview).to_contain_text("1 dead letter would be given")
        expect(preview.get_by_text("put it straight back")).to_have_count(0 if chosen() == EMBEDDED else 1)
        preview.get_by_role("button", name="Send again").click()
        expect(preview.locator(".done")).to_contain_text("1 dead letter was given")
        handled.wait(1)
