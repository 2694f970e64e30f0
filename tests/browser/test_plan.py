"""Planning a group in a real browser: by dragging, by keys and by buttons. Dry run, the address keeps it."""

from playwright.sync_api import Page, expect

from steelyard import Admin
from tests.browser.stage import BrowserStage
from tests.dashboard.group_scenes import check_command, run_members, wait_until_settled


def _people(page: Page, zone: str) -> list[str]:
    return page.locator(f".zone.{zone} .player strong").all_text_contents()


def _ready(page: Page) -> None:
    expect(page.locator(".strategy").first).to_be_visible()


def _command(page: Page) -> list[str]:
    return check_command(page.locator(".command code").text_content() or "")


def test_members_are_dragged_out_and_in(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
        with run_members(stage.namesrv, "billing", "orders", "till-1", "till-2", "till-3"):
            page = stage.open("/groups/billing/plan")
            _ready(page)
            expect(page.locator(".untouched")).to_contain_text("Dry run")
            expect(page.get_by_role("status")).to_contain_text("0 queues move; the minimum is 0")
            page.locator(".player", has_text="till-2").drag_to(page.locator(".zone.out"))
            expect(page.locator(".zone.out .player", has_text="till-2")).to_be_visible()
            sticky = page.locator("[data-strategy=sticky]")
            expect(sticky.locator(".moved")).not_to_have_text("0")
            assert sticky.locator(".moved").text_content() == sticky.locator(".least").text_content()
            expect(page.locator(".reasons li").first).to_contain_text("till-2 leaves")
            page.locator(".newcomer .letter").drag_to(page.locator(".zone.in"))
            expect(page.locator(".zone.in .player", has_text="new-1")).to_be_visible()
            assert page.url == f"{stage.dashboard.address}groups/billing/plan?leave=till-2&join=new-1"
            expect(page.locator(".command code")).to_contain_text("--join new-1 --leave till-2")
            assert _command(page)[:3] == ["plan", "--group", "billing"]
            page.locator(".zone.out .player", has_text="till-2").drag_to(page.locator(".zone.in"))
            page.locator(".zone.in .player", has_text="new-1").drag_to(page.locator(".zone.out"))
            expect(page.get_by_role("status")).to_contain_text("0 queues move")
            assert _people(page, "in") == ["till-1", "till-2", "till-3"]
            # All the while the group itself stayed as it was.
            wait_until_settled(admin, "billing", 3)


def test_the_same_by_keyboard(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
    with run_members(stage.namesrv, "billing", "orders", "till-1", "till-2"):
        page = stage.open("/groups/billing/plan")
        _ready(page)
        page.get_by_role("button", name="Take out: till-2").focus()
        page.keyboard.press("ArrowRight")
        back = page.get_by_role("button", name="Put back: till-2")
        expect(back).to_be_focused()
        expect(page.get_by_role("status")).to_contain_text("1 member and")
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("button", name="Take out: till-2")).to_be_focused()
        page.keyboard.press("Enter")
        expect(back).to_be_focused()
        page.get_by_label("Name of a new member").focus()
        page.keyboard.type("till-9, the new one")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Remove: till-9, the new one")).to_be_visible()
        expect(page.locator(".command code")).to_contain_text("till-9, the new one")
        assert _command(page)[3:7] == ["--join", "till-9, the new one", "--leave", "till-2"]
        expect(page.locator(".reasons li").first).to_contain_text("goes from till-2 to")


def test_a_strategy_is_chosen_and_the_address_keeps_it_all(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 8)
    with run_members(stage.namesrv, "billing", "orders", "till-1", "till-2"):
        page = stage.open("/groups/billing/plan?join=new-1")
        _ready(page)
        assert page.locator(".strategy").count() == 4
        expect(page.get_by_role("radio", name="STICKY")).to_be_checked()
        page.get_by_role("radio", name="AVG_BY_CIRCLE").check()
        expect(page.get_by_role("heading", name="Before and after, by AVG_BY_CIRCLE")).to_be_visible()
        circle = page.locator("[data-strategy=circle]")
        moved, least = (int(circle.locator(each).text_content() or "") for each in (".moved", ".least"))
        assert moved > least
        expect(circle).to_contain_text(f"{moved - least} more than needed")
        expect(page.locator(".before-after li.moves")).to_have_count(moved)
        page.get_by_text("3 strategies cannot be tried here").click()
        expect(page.locator("details")).to_contain_text("MACHINE_ROOM needs rooms")
        again = stage.open(page.url.removeprefix(stage.dashboard.address.rstrip("/")))
        expect(again.get_by_role("radio", name="AVG_BY_CIRCLE")).to_be_checked()
        expect(again.locator(".zone.in .player", has_text="new-1")).to_be_visible()
        again.get_by_role("button", name="Start over").click()
        expect(again.get_by_role("radio", name="STICKY")).to_be_checked()
        assert again.url == f"{stage.dashboard.address}groups/billing/plan"


def test_who_really_joins_appears_in_the_plan(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
    with run_members(stage.namesrv, "billing", "orders", "till-1"):
        page = stage.open("/groups/billing/plan")
        _ready(page)
        with run_members(stage.namesrv, "billing", "orders", "till-2", of=2):
            expect(page.locator(".zone.in .player", has_text="till-2")).to_be_visible()


def test_any_cluster_can_be_planned(any_stage: BrowserStage) -> None:
    topic, group = "plan-orders", "plan-billing"
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create(topic, 4)
        admin.groups.create(group)
    with run_members(any_stage.namesrv, group, topic, "till-1", "till-2"):
        page = any_stage.open(f"/groups/{group}/plan?leave=till-2&join=new-1,new-2")
        _ready(page)
        expect(page.get_by_role("status")).to_contain_text("3 members and")
        expect(page.locator("[data-strategy=sticky] .moved")).not_to_have_text("0")
        expect(page.locator(".reasons li").first).to_contain_text("goes from")
        check_command(page.locator(".command code").text_content() or "")
        expect(page.locator(".problem")).to_have_count(0)
