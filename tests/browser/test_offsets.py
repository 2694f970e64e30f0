"""Offsets in a real browser: how far a group is, live, and moving it with a preview."""

from playwright.sync_api import expect

from steelyard import Admin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from tests.browser.stage import BrowserStage
from tests.dashboard.group_scenes import check_command, run_members
from tests.live.clusters import chosen, until
from tests.live.handled import Handled


def _waiting(admin: Admin, group: str, topic: str) -> int:
    return sum(row.lag for row in admin.offsets.list(group, topic))


def test_offsets_are_reset_after_a_preview_and_the_group_is_seen_to_move(stage: BrowserStage) -> None:
    handled = Handled()
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
        stage.send("orders", *(f"order {number}" for number in range(12)))
        with run_members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            until(lambda: not _waiting(admin, "billing", "orders"), "all are handled")
        page = stage.open("/groups/billing/offsets")
        lag = page.locator(".fact", has_text="Lag").locator("dd")
        expect(lag).to_have_text("0")
        page.get_by_role("combobox", name="To", exact=True).select_option("by")
        page.get_by_label("Shift: +10 or -10").fill("-2")
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="Preview", exact=True)
        expect(preview).to_contain_text("2 messages back in 4 queues")
        expect(preview).to_contain_text("0 messages would be skipped, 8 messages would be redelivered")
        expect(preview).to_contain_text("No member is online")
        expect(preview.locator("tbody tr")).to_have_count(4)
        assert check_command(preview.locator(".command code").text_content() or "")[3:5] == ["--to", "-2"]
        assert not _waiting(admin, "billing", "orders")
        preview.get_by_role("button", name="Reset offsets").click()
        expect(page.locator(".done")).to_contain_text("billing was reset in 4 queues: 0 skipped, 8 redelivered")
        expect(lag).to_have_text("8")
        with run_members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            handled.wait(20)
            expect(lag).to_have_text("0")


def test_some_queues_go_to_a_time_while_members_run(stage: BrowserStage) -> None:
    handled = Handled()
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
        stage.send("orders", *(f"order {number}" for number in range(12)))
        with run_members(stage.namesrv, "billing", "orders", "till-1", handle=handled):
            until(lambda: not _waiting(admin, "billing", "orders"), "all are handled")
            page = stage.open("/groups/billing/offsets?to=ago&topic=orders")
            page.get_by_role("checkbox", name="broker-0:0").check()
            page.get_by_role("checkbox", name="broker-1:1").check()
            assert "queues=broker-0%3A0%2Cbroker-1%3A1" in page.url
            page.get_by_role("button", name="Preview").click()
            preview = page.get_by_role("region", name="Preview", exact=True)
            expect(preview.locator("tbody tr")).to_have_count(2)
            expect(preview).to_contain_text("1 member is online and is reset as well")
            words = check_command(preview.locator(".command code").text_content() or "")
            assert words[5:11] == ["--topic", "orders", "--queue", "broker-0:0", "--queue", "broker-1:1"]
            preview.get_by_role("button", name="Reset offsets").click()
            expect(page.locator(".done")).to_contain_text("was reset in 2 queues")
            handled.wait(18)


def test_another_wish_takes_the_preview_away(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
    with run_members(stage.namesrv, "billing", "orders", "till-1"):
        pass
    page = stage.open("/groups/billing/offsets")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview", exact=True)
    expect(preview).to_be_visible()
    page.get_by_role("combobox", name="To", exact=True).select_option("last")
    expect(preview).to_be_hidden()
    page.get_by_role("button", name="Preview").click()
    preview.get_by_role("button", name="Cancel").click()
    expect(preview).to_be_hidden()


def test_a_read_only_dashboard_shows_the_command_line_instead(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
    with run_members(stage.namesrv, "billing", "orders", "till-1"):
        pass
    with Dashboard(stage.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        quiet = BrowserStage(stage.browser, dashboard, None, stage.namesrv)
        page = quiet.open("/groups/billing/offsets")
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="Preview", exact=True)
        expect(preview.get_by_role("button", name="Reset offsets")).to_be_disabled()
        expect(preview).to_contain_text("This dashboard is read-only")
        expect(preview.locator(".command code")).to_contain_text("steelyard offset reset billing --to first")
        quiet.close()
        assert not quiet.complaints


def test_offsets_of_any_cluster_are_seen_and_reset(any_stage: BrowserStage) -> None:
    topic, group = "offsets-orders", "offsets-billing"
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create(topic, 2)
        admin.groups.create(group)
        any_stage.send(topic, *(f"order {number}" for number in range(8)))
        with run_members(any_stage.namesrv, group, topic, "till-1"):
            until(lambda: not _waiting(admin, group, topic), "all are handled")
        page = any_stage.open(f"/groups/{group}/offsets?topic={topic}")
        lag = page.locator(".fact", has_text="Lag").locator("dd")
        expect(lag).to_have_text("0")
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="Preview", exact=True)
        expect(preview).to_contain_text("8 messages would be redelivered")
        preview.get_by_role("button", name="Reset offsets").click()
        expect(page.locator(".done")).to_contain_text("8 redelivered")
        expect(lag).to_have_text("8")


def test_what_a_cluster_cannot_do_with_members_online_is_reported(any_stage: BrowserStage) -> None:
    topic, group = "online-orders", "online-billing"
    any_stage.expected.add(501)
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create(topic, 2)
        admin.groups.create(group)
        any_stage.send(topic, *(f"order {number}" for number in range(8)))
        with run_members(any_stage.namesrv, group, topic, "till-1"):
            until(lambda: not _waiting(admin, group, topic), "all are handled")
            page = any_stage.open(f"/groups/{group}/offsets?topic={topic}&to=offset&value=0")
            page.get_by_role("button", name="Preview").click()
            preview = page.get_by_role("region", name="Preview", exact=True)
            if not chosen().startswith("apache-4"):
                expect(preview).to_contain_text("1 member is online and is reset as well")
                return
            expect(page.get_by_role("alert")).to_contain_text("of release 4, which moves members that are online only")
            page.get_by_role("combobox", name="To", exact=True).select_option("first")
            page.get_by_role("button", name="Preview").click()
            expect(preview).to_contain_text("8 messages would be redelivered")
