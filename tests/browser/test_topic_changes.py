"""Topics are created, changed and deleted, and messages sent, by hand, each after a preview with its command."""

from playwright.sync_api import Locator, Page, expect

from steelyard import Admin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.model import Permission
from tests.browser.stage import BrowserStage
from tests.dashboard.group_scenes import check_command


def _preview(page: Page) -> Locator:
    """Ask for the preview in the dialog, and return it."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Preview").click()
    return dialog.get_by_role("region", name="Preview", exact=True).first


def _command(place: Locator) -> list[str]:
    return check_command(place.locator(".command code").text_content() or "")


def test_a_topic_is_created_after_a_preview(stage: BrowserStage) -> None:
    page = stage.open("/topics")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_label("Queues on each broker").fill("3")
    page.get_by_role("combobox", name="Permissions").select_option("read")
    preview = _preview(page)
    expect(preview.get_by_role("row", name="broker-1")).to_contain_text("3 queues; clients may read")
    assert _command(preview)[:7] == ["topic", "create", "orders", "--queues", "3", "--may", "read"]
    with Admin(stage.namesrv) as admin:
        assert not admin.topics.list()
        preview.get_by_role("button", name="Cancel").click()
        expect(page.get_by_label("Name")).to_have_value("orders")
        _preview(page).get_by_role("button", name="Create topic").click()
        expect(page.get_by_text("orders is created.")).to_be_visible()
        assert [each.read_queues for each in admin.topics.configs("orders").values()] == [3, 3]
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    expect(page.locator("main h1")).to_contain_text("orders")
    assert page.url == f"{stage.dashboard.address}topics/orders"


def test_why_a_topic_cannot_be_created_is_a_sentence(stage: BrowserStage) -> None:
    stage.expected.add(400)
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
    page = stage.open("/topics")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_role("dialog").get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("topic 'orders' exists already")


def test_settings_are_changed_and_unread_queues_are_warned_of(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
        page = stage.open("/topics/orders")
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Read queues on each broker").fill("3")
        page.get_by_role("combobox", name="Permissions").select_option("read")
        preview = _preview(page)
        expect(preview.get_by_role("alert")).to_contain_text("2 queues could not be read any more")
        expect(preview.get_by_role("row", name="broker-0")).to_contain_text("clients may read")
        assert _command(preview)[:7] == ["topic", "set", "orders", "--may", "read", "--read-queues", "3"]
        preview.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("orders is changed.")).to_be_visible()
        assert {
            (each.read_queues, each.write_queues, each.permission) for each in admin.topics.configs("orders").values()
        } == {(3, 4, Permission.READ)}


def test_a_topic_is_deleted_after_a_preview(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
        stage.send("orders", "one", "two")
        page = stage.open("/topics/orders")
        page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("orders would be deleted on broker-0, broker-1, with its 2 messages")
        assert _command(dialog)[:3] == ["topic", "delete", "orders"]
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        assert admin.topics.list()
        page.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("orders is deleted, with 2 messages")
        assert not admin.topics.list()
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.locator("main h1")).to_have_text("Topics")


def test_a_message_is_sent_and_found_where_it_was_stored(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
    page = stage.open("/topics/orders")
    page.get_by_role("button", name="Send a message").click()
    page.get_by_label("Body").fill('{"id": 7}')
    page.get_by_label("Tag").fill("paid")
    page.get_by_label("Keys").fill("order-7 customer-1")
    preview = _preview(page)
    expect(preview).to_contain_text("A message of 9 B would be sent to orders. No group consumes it.")
    assert _command(preview)[:10] == [
        *("send", "orders", "--body", '{"id": 7}', "--tags", "paid"),
        *("--keys", "order-7", "--keys", "customer-1"),
    ]
    preview.get_by_role("button", name="Send a message").click()
    page.get_by_role("status").get_by_role("link").click()
    expect(page.locator("pre.body")).to_contain_text('"id": 7')
    expect(page.get_by_text("customer-1").first).to_be_visible()


def test_a_read_only_dashboard_shows_what_it_would_do(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
    with Dashboard(stage.namesrv, DashboardOptions(port=0, read_only=True)) as dashboard:
        quiet = BrowserStage(stage.browser, dashboard, None, stage.namesrv)
        page = quiet.open("/topics/orders")
        page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
        expect(dialog).to_contain_text("This dashboard is read-only")
        quiet.close()
        assert not quiet.complaints
