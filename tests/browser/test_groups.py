"""The list of groups in a real browser."""

from playwright.sync_api import expect
from tests.browser.stage import Stage
from tests.dashboard.scenes import check_command, members
from tests.live.clusters import until

from steelyard import Admin


def test_groups_are_listed_on_any_cluster(any_stage: Stage) -> None:
    with Admin(any_stage.namesrv) as admin:
        admin.create_topic("listed-orders", 2)
        until(lambda: len(admin.topic("listed-orders").queues) == 4, "the topic is there")
    with members(any_stage.namesrv, "listed-billing", "listed-orders", "c1"):
        sheet = any_stage.open("/groups")
        row = sheet.get_by_role("row", name="listed-billing")
        expect(row.locator("td").first).to_have_text("1", timeout=15_000)
        expect(row).to_contain_text("listed-orders", timeout=30_000)
        check_command(sheet.locator(".command code").text_content() or "")
        row.get_by_role("link", name="listed-billing").click()
        expect(sheet.get_by_role("heading", name="listed-billing", level=1)).to_be_visible()
        expect(sheet.locator("table.grid .mark").first).to_be_visible()


def test_groups_are_found_and_sorted(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        for name in ("billing", "shipping", "audit"):
            admin.create_group(name)
    sheet = stage.open("/groups")
    expect(sheet.locator("tbody th")).to_have_text(["audit", "billing", "shipping"])
    sheet.get_by_role("button", name="Group").click()
    expect(sheet.locator("tbody th")).to_have_text(["shipping", "billing", "audit"])
    sheet.keyboard.press("/")
    sheet.keyboard.type("ship")
    expect(sheet.locator("tbody th")).to_have_text(["shipping"])
