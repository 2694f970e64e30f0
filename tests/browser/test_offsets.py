"""Offsets in a real browser: how far a group is, live, and moving it with a preview."""

from playwright.sync_api import expect
from tests.browser.stage import Stage
from tests.dashboard.scenes import check_command, members
from tests.live.clusters import chosen, until
from tests.live.handled import Handled

from steelyard import Admin
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page


def _waiting(admin: Admin, group: str, topic: str) -> int:
    return sum(row.lag for row in admin.offsets(group, topic))


def test_offsets_are_reset_after_a_preview_and_the_group_is_seen_to_move(stage: Stage) -> None:
    handled = Handled()
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 2)
        stage.send("orders", *(f"order {number}" for number in range(12)))
        with members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            until(lambda: not _waiting(admin, "billing", "orders"), "all are handled")
        sheet = stage.open("/groups/billing/offsets")
        lag = sheet.locator(".fact", has_text="Waiting").locator("dd")
        expect(lag).to_have_text("0")
        sheet.get_by_role("combobox", name="To", exact=True).select_option("by")
        sheet.get_by_label("How many").fill("-2")
        sheet.get_by_role("button", name="Preview").click()
        preview = sheet.get_by_role("region", name="What that would do", exact=True)
        expect(preview).to_contain_text("2 messages further back in 4 queues")
        expect(preview).to_contain_text("0 messages would be skipped, 8 messages would come again")
        expect(preview).to_contain_text("Nobody of it is online")
        expect(preview.locator("tbody tr")).to_have_count(4)
        assert check_command(preview.locator(".command code").text_content() or "")[3:5] == ["--to", "-2"]
        assert not _waiting(admin, "billing", "orders")
        preview.get_by_role("button", name="Move the group").click()
        expect(sheet.locator(".done")).to_contain_text("billing is moved in 4 queues: 0 skipped, 8 come again")
        expect(lag).to_have_text("8", timeout=3_000)
        with members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            handled.wait(20)
            expect(lag).to_have_text("0", timeout=10_000)


def test_some_queues_go_to_a_time_while_members_run(stage: Stage) -> None:
    handled = Handled()
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 2)
        stage.send("orders", *(f"order {number}" for number in range(12)))
        with members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            until(lambda: not _waiting(admin, "billing", "orders"), "all are handled")
            sheet = stage.open("/groups/billing/offsets?to=ago&topic=orders")
            sheet.get_by_role("checkbox", name="broker-0:0").check()
            sheet.get_by_role("checkbox", name="broker-1:1").check()
            assert "queues=broker-0%3A0%2Cbroker-1%3A1" in sheet.url
            sheet.get_by_role("button", name="Preview").click()
            preview = sheet.get_by_role("region", name="What that would do", exact=True)
            expect(preview.locator("tbody tr")).to_have_count(2)
            expect(preview).to_contain_text("1 member is online, and moves as well")
            words = check_command(preview.locator(".command code").text_content() or "")
            assert words[5:11] == ["--topic", "orders", "--queue", "broker-0:0", "--queue", "broker-1:1"]
            preview.get_by_role("button", name="Move the group").click()
            expect(sheet.locator(".done")).to_contain_text("is moved in 2 queues")
            handled.wait(18)


def test_another_wish_takes_the_preview_away(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 1)
    with members(stage.namesrv, "billing", "orders", "till-1"):
        pass
    sheet = stage.open("/groups/billing/offsets")
    sheet.get_by_role("button", name="Preview").click()
    preview = sheet.get_by_role("region", name="What that would do", exact=True)
    expect(preview).to_be_visible()
    sheet.get_by_role("combobox", name="To", exact=True).select_option("last")
    expect(preview).to_be_hidden()
    sheet.get_by_role("button", name="Preview").click()
    preview.get_by_role("button", name="Cancel").click()
    expect(preview).to_be_hidden()


def test_a_page_that_is_read_only_shows_the_command_line_instead(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 1)
    with members(stage.namesrv, "billing", "orders", "till-1"):
        pass
    with Page(stage.namesrv, PageOptions(port=0, read_only=True)) as page:
        quiet = Stage(stage.browser, page, None, stage.namesrv)
        sheet = quiet.open("/groups/billing/offsets")
        sheet.get_by_role("button", name="Preview").click()
        preview = sheet.get_by_role("region", name="What that would do", exact=True)
        expect(preview.get_by_role("button", name="Move the group")).to_be_disabled()
        expect(preview).to_contain_text("This page is read-only")
        expect(preview.locator(".command code")).to_contain_text("steelyard offset reset billing --to first")
        quiet.close()
        assert not quiet.complaints


def test_offsets_of_any_cluster_are_seen_and_reset(any_stage: Stage) -> None:
    topic, group = "offsets-orders", "offsets-billing"
    with Admin(any_stage.namesrv) as admin:
        admin.create_topic(topic, 2)
        admin.create_group(group)
        any_stage.send(topic, *(f"order {number}" for number in range(8)))
        with members(any_stage.namesrv, group, topic, "till-1"):
            until(lambda: not _waiting(admin, group, topic), "all are handled")
        sheet = any_stage.open(f"/groups/{group}/offsets?topic={topic}")
        lag = sheet.locator(".fact", has_text="Waiting").locator("dd")
        expect(lag).to_have_text("0")
        sheet.get_by_role("button", name="Preview").click()
        preview = sheet.get_by_role("region", name="What that would do", exact=True)
        expect(preview).to_contain_text("8 messages would come again")
        preview.get_by_role("button", name="Move the group").click()
        expect(sheet.locator(".done")).to_contain_text("8 come again")
        expect(lag).to_have_text("8", timeout=10_000)


def test_what_a_cluster_cannot_do_with_members_online_is_said(any_stage: Stage) -> None:
    topic, group = "online-orders", "online-billing"
    any_stage.expected.add(501)
    with Admin(any_stage.namesrv) as admin:
        admin.create_topic(topic, 2)
        admin.create_group(group)
        any_stage.send(topic, *(f"order {number}" for number in range(8)))
        with members(any_stage.namesrv, group, topic, "till-1"):
            until(lambda: not _waiting(admin, group, topic), "all are handled")
            sheet = any_stage.open(f"/groups/{group}/offsets?topic={topic}&to=offset&value=0")
            sheet.get_by_role("button", name="Preview").click()
            preview = sheet.get_by_role("region", name="What that would do", exact=True)
            if not chosen().startswith("apache-4"):
                expect(preview).to_contain_text("1 member is online, and moves as well")
                return
            expect(sheet.get_by_role("alert")).to_contain_text("of release 4, which moves members that are online only")
            sheet.get_by_role("combobox", name="To", exact=True).select_option("first")
            sheet.get_by_role("button", name="Preview").click()
            expect(preview).to_contain_text("8 messages would come again")
