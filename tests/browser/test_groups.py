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


def test_lag_has_the_colour_of_its_size_and_not_of_its_rank(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1, brokers=["broker-0"])
        with run_members(stage.namesrv, "billing", "orders", "c1"):
            pass
        stage.send("orders", *(b"x" for _ in range(20)))
        page = stage.open("/groups")
        lag = page.locator("tbody .heat-cell")
        expect(lag).to_have_text("20")
        expect(lag).to_have_class("heat-cell heat-0")
        stage.send("orders", *(b"x" for _ in range(100)))
        expect(lag).to_have_text("120")
        expect(lag).to_have_class("heat-cell heat-1")
        heats = page.evaluate(
            "import('/static/js/components/bar.js').then(({ lagClass }) =>"
            " [null, 0, 99, 100, 1000, 10000, 100000, 1e6, 1e9].map(lagClass))"
        )
        assert heats == ["heat-none", "heat-0", "heat-0", *(f"heat-{step}" for step in (1, 2, 3, 4, 5, 5))]


def test_every_page_of_a_group_counts_the_same(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
        with run_members(stage.namesrv, "billing", "orders", "c1", "c2"):
            listed = stage.open("/groups").get_by_role("row", name="billing").locator("td")
            expect(listed.nth(0)).to_have_text("2")
            expect(listed.nth(1)).to_have_text("4")
            for path in ("/groups/billing", "/groups/billing/offsets"):
                page = stage.open(path)
                for name, count in (("Members", "2"), ("Queues", "4"), ("Lag", "0")):
                    fact = page.locator(".fact").filter(has=page.get_by_text(name, exact=True))
                    expect(fact.locator("dd")).to_have_text(count)


def test_groups_fit_a_phone(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders-of-a-large-shop", 2)
        with run_members(stage.namesrv, "billing-of-a-large-shop", "orders-of-a-large-shop", "c1"):
            page = stage.open("/groups", viewport={"width": 390, "height": 844})
            row = page.get_by_role("row", name="billing-of-a-large-shop")
            expect(row.locator("td:visible")).to_have_text(["1", "0", "0"])
            for box in ("document.documentElement", "document.querySelector('.scroll')"):
                assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
            page.set_viewport_size({"width": 800, "height": 900})
            expect(row).to_contain_text("orders-of-a-large-shop")
