"""The frame around all pages: it comes up, goes from page to page, speaks two languages, and is light or dark."""

from urllib.parse import urlsplit

from playwright.sync_api import expect

from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from tests.browser.stage import BrowserStage


def test_every_page_is_reached_from_the_first(stage: BrowserStage) -> None:
    page = stage.open("/")
    for name in ("Topics", "Groups", "Messages", "Dead letters", "Producers", "Brokers", "Overview"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.locator("main h1")).to_be_visible()
    assert page.url == stage.dashboard.address


def test_the_token_leaves_the_address_bar(stage: BrowserStage) -> None:
    page = stage.open("/topics?x=1")
    assert page.url == f"{stage.dashboard.address}topics?x=1"


def test_who_has_no_token_is_asked_for_it(stage: BrowserStage) -> None:
    stage.expected.add(401)
    page = stage.context().new_page()
    page.goto(f"{stage.dashboard.address}groups")
    page.get_by_label("Token").fill(stage.dashboard.options.token)
    page.get_by_role("button").click()
    expect(page.locator("header.top")).to_be_visible()
    assert page.url == f"{stage.dashboard.address}groups"


def test_it_speaks_chinese_to_who_does(stage: BrowserStage) -> None:
    page = stage.open("/", locale="zh-CN")
    expect(page.get_by_role("link", name="总览")).to_be_visible()
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("link", name="Overview")).to_be_visible()


def test_it_is_dark_for_who_likes_that(stage: BrowserStage) -> None:
    light, dark = (
        stage.open("/", color_scheme=each).evaluate("getComputedStyle(document.documentElement).backgroundColor")
        for each in ("light", "dark")
    )
    assert light != dark
    page = stage.open("/", color_scheme="dark")
    page.get_by_label("Colours").select_option("light")
    expect(page.locator("html")).to_have_css("background-color", light)


def test_keys_go_to_pages(stage: BrowserStage) -> None:
    page = stage.open("/")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Brokers")).to_have_attribute(
        "aria-current", "page"
    )
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_pages_can_be_visited_again_and_back_goes_where_one_was(stage: BrowserStage) -> None:
    page = stage.open("/topics")
    pages = page.get_by_role("navigation", name="Pages")
    pages.get_by_role("link", name="Brokers").click()
    expect(page.get_by_role("link", name="broker-1")).to_be_visible()
    page.go_back()
    expect(page.locator("main h1")).to_have_text("Topics")
    page.go_forward()
    page.get_by_role("link", name="broker-1").click()
    expect(page.locator("main h1")).to_have_text("broker-1")
    page.go_back()
    expect(page.locator("main h1")).to_have_text("Brokers")


def test_an_address_without_a_page_reports_it(stage: BrowserStage) -> None:
    page = stage.open("/nowhere")
    expect(page.locator("main h1")).to_have_text("There is no page at /nowhere")
    page.locator("main").get_by_role("link", name="Overview").click()
    expect(page.locator("main h1")).to_have_text("Overview")


def test_a_server_that_was_started_again_asks_for_its_new_token(stage: BrowserStage) -> None:
    stage.expected |= {401}
    page = stage.open("/brokers")
    expect(page.get_by_role("link", name="broker-1")).to_be_visible()
    port = urlsplit(stage.dashboard.address).port or 0
    stage.dashboard.stop()
    expect(page.get_by_text("does not answer; reconnecting")).to_be_visible()
    with Dashboard(stage.namesrv, DashboardOptions(port=port)) as dashboard:
        page.get_by_label("Token").fill(dashboard.options.token)
        page.get_by_role("button").click()
        expect(page.get_by_role("link", name="broker-1")).to_be_visible()
