"""The list of groups in a real browser."""

from playwright.sync_api import expect

from steelyard import Admin
from tests.browser.stage import BrowserStage
from tests.dashboard.group_scenes import check_command, run_members
from tests.live.clusters import until


def test_groups_are_listed_on_any_cluster(any_stage: BrowserStage) -> None:
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create("listed-orders", 2)
        until(lambda: len(admin.topics.describe("listed-orders").queues) == 4, "the topic is there")
    with run_members(any_stage.namesrv, "listed-billing", "listed-orders", "c1"):
        page = any_stage.open("/groups")
        row = page.get_by_role("row", name="listed-billing")
        expect(row.locator("td").first).to_have_text("1")
        expect(row).to_contain_text("listed-orders")
        check_command(page.locator(".command code").text_content() or "")
        row.get_by_role("link", name="listed-billing").click()
        expect(page.get_by_role("heading", name="listed-billing", level=1)).to_be_visible()
        expect(page.locator("table.grid .mark").first).to_be_visible()


def test_groups_are_found_and_sorted(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        for name in ("billing", "shipping", "audit"):
            admin.groups.create(name)
    page = stage.open("/groups")
    expect(page.locator("tbody th")).to_have_text(["audit", "billing", "shipping"])
    page.get_by_role("button", name="Group").click()
    expect(page.locator("tbody th")).to_have_text(["shipping", "billing", "audit"])
    page.keyboard.press("/")
    page.keyboard.type("ship")
    expect(page.locator("tbody th")).to_have_text(["shipping"])
