"""Planning a group in a real browser: by dragging, by keys and by buttons. Nothing is touched, the address keeps it."""

from playwright.sync_api import Page as Sheet
from playwright.sync_api import expect
from tests.browser.stage import Stage
from tests.dashboard.scenes import check_command, members, settled

from steelyard import Admin


def _people(sheet: Sheet, zone: str) -> list[str]:
    return sheet.locator(f".zone.{zone} .player strong").all_text_contents()


def _ready(sheet: Sheet) -> None:
    expect(sheet.locator(".strategy").first).to_be_visible()


def _command(sheet: Sheet) -> list[str]:
    return check_command(sheet.locator(".command code").text_content() or "")


def test_members_are_dragged_out_and_in(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 4)
        with members(stage.namesrv, "billing", "orders", "till-1", "till-2", "till-3"):
            sheet = stage.open("/groups/billing/plan")
            _ready(sheet)
            expect(sheet.locator(".untouched")).to_contain_text("Nothing is touched")
            expect(sheet.get_by_role("status")).to_contain_text("0 queues move, and 0 is the least possible")
            sheet.locator(".player", has_text="till-2").drag_to(sheet.locator(".zone.out"))
            expect(sheet.locator(".zone.out .player", has_text="till-2")).to_be_visible()
            sticky = sheet.locator("[data-strategy=sticky]")
            expect(sticky.locator(".moved")).not_to_have_text("0")
            assert sticky.locator(".moved").text_content() == sticky.locator(".least").text_content()
            expect(sheet.locator(".reasons li").first).to_contain_text("till-2 leaves")
            sheet.locator(".newcomer .letter").drag_to(sheet.locator(".zone.in"))
            expect(sheet.locator(".zone.in .player", has_text="new-1")).to_be_visible()
            assert sheet.url == f"{stage.page.address}groups/billing/plan?leave=till-2&join=new-1"
            expect(sheet.locator(".command code")).to_contain_text("--join new-1 --leave till-2")
            assert _command(sheet)[:3] == ["plan", "--group", "billing"]
            sheet.locator(".zone.out .player", has_text="till-2").drag_to(sheet.locator(".zone.in"))
            sheet.locator(".zone.in .player", has_text="new-1").drag_to(sheet.locator(".zone.out"))
            expect(sheet.get_by_role("status")).to_contain_text("0 queues move")
            assert _people(sheet, "in") == ["till-1", "till-2", "till-3"]
            # All the while the group itself stayed as it was.
            settled(admin, "billing", 3)


def test_the_same_by_keyboard(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 4)
    with members(stage.namesrv, "billing", "orders", "till-1", "till-2"):
        sheet = stage.open("/groups/billing/plan")
        _ready(sheet)
        sheet.get_by_role("button", name="Take out: till-2").focus()
        sheet.keyboard.press("ArrowRight")
        back = sheet.get_by_role("button", name="Put back: till-2")
        expect(back).to_be_focused()
        expect(sheet.get_by_role("status")).to_contain_text("1 member and")
        sheet.keyboard.press("ArrowLeft")
        expect(sheet.get_by_role("button", name="Take out: till-2")).to_be_focused()
        sheet.keyboard.press("Enter")
        expect(back).to_be_focused()
        sheet.get_by_label("Name of a new member").focus()
        sheet.keyboard.type("till-9, the new one")
        sheet.keyboard.press("Enter")
        expect(sheet.get_by_role("button", name="Remove: till-9, the new one")).to_be_visible()
        expect(sheet.locator(".command code")).to_contain_text("till-9, the new one")
        assert _command(sheet)[3:7] == ["--join", "till-9, the new one", "--leave", "till-2"]
        expect(sheet.locator(".reasons li").first).to_contain_text("goes from till-2 to")


def test_a_strategy_is_chosen_and_the_address_keeps_it_all(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 8)
    with members(stage.namesrv, "billing", "orders", "till-1", "till-2"):
        sheet = stage.open("/groups/billing/plan?join=new-1")
        _ready(sheet)
        assert sheet.locator(".strategy").count() == 4
        expect(sheet.get_by_role("radio", name="STICKY")).to_be_checked()
        sheet.get_by_role("radio", name="AVG_BY_CIRCLE").check()
        expect(sheet.get_by_role("heading", name="Before and after, by AVG_BY_CIRCLE")).to_be_visible()
        circle = sheet.locator("[data-strategy=circle]")
        moved, least = (int(circle.locator(each).text_content() or "") for each in (".moved", ".least"))
        assert moved > least
        expect(circle).to_contain_text(f"{moved - least} more than needed")
        expect(sheet.locator(".before-after li.moves")).to_have_count(moved)
        sheet.get_by_text("3 strategies cannot be tried here").click()
        expect(sheet.locator("details")).to_contain_text("MACHINE_ROOM needs rooms")
        again = stage.open(sheet.url.removeprefix(stage.page.address.rstrip("/")))
        expect(again.get_by_role("radio", name="AVG_BY_CIRCLE")).to_be_checked()
        expect(again.locator(".zone.in .player", has_text="new-1")).to_be_visible()
        again.get_by_role("button", name="Start over").click()
        expect(again.get_by_role("radio", name="STICKY")).to_be_checked()
        assert again.url == f"{stage.page.address}groups/billing/plan"


def test_who_really_joins_appears_in_the_plan(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 4)
    with members(stage.namesrv, "billing", "orders", "till-1"):
        sheet = stage.open("/groups/billing/plan")
        _ready(sheet)
        with members(stage.namesrv, "billing", "orders", "till-2", of=2):
            expect(sheet.locator(".zone.in .player", has_text="till-2")).to_be_visible(timeout=8_000)


def test_any_cluster_can_be_planned(any_stage: Stage) -> None:
    topic, group = "plan-orders", "plan-billing"
    with Admin(any_stage.namesrv) as admin:
        admin.create_topic(topic, 4)
        admin.create_group(group)
    with members(any_stage.namesrv, group, topic, "till-1", "till-2"):
        sheet = any_stage.open(f"/groups/{group}/plan?leave=till-2&join=new-1,new-2")
        _ready(sheet)
        expect(sheet.get_by_role("status")).to_contain_text("3 members and")
        expect(sheet.locator("[data-strategy=sticky] .moved")).not_to_have_text("0")
        expect(sheet.locator(".reasons li").first).to_contain_text("goes from")
        check_command(sheet.locator(".command code").text_content() or "")
        expect(sheet.locator(".problem")).to_have_count(0)
