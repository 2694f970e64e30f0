"""The frame around all pages: it comes up, goes from page to page, speaks two languages, and is light or dark."""

from urllib.parse import urlsplit

from playwright.sync_api import expect
from tests.browser.stage import Stage

from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page


def test_every_page_is_reached_from_the_first(stage: Stage) -> None:
    sheet = stage.open("/")
    for name in ("Topics", "Groups", "Messages", "Dead letters", "Producers", "Brokers", "Overview"):
        sheet.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(sheet.locator("main h1")).to_be_visible()
    assert sheet.url == stage.page.address


def test_the_token_leaves_the_address_bar(stage: Stage) -> None:
    sheet = stage.open("/topics?x=1")
    assert sheet.url == f"{stage.page.address}topics?x=1"


def test_who_has_no_token_is_asked_for_it(stage: Stage) -> None:
    stage.expected.add(401)
    sheet = stage.context().new_page()
    sheet.goto(f"{stage.page.address}groups")
    sheet.get_by_label("Token").fill(stage.page.options.token)
    sheet.get_by_role("button").click()
    expect(sheet.locator("header.top")).to_be_visible()
    assert sheet.url == f"{stage.page.address}groups"


def test_it_speaks_chinese_to_who_does(stage: Stage) -> None:
    sheet = stage.open("/", locale="zh-CN")
    expect(sheet.get_by_role("link", name="总览")).to_be_visible()
    sheet.get_by_label("语言").select_option("en")
    expect(sheet.get_by_role("link", name="Overview")).to_be_visible()


def test_it_is_dark_for_who_likes_that(stage: Stage) -> None:
    light, dark = (
        stage.open("/", color_scheme=each).evaluate("getComputedStyle(document.documentElement).backgroundColor")
        for each in ("light", "dark")
    )
    assert light != dark
    sheet = stage.open("/", color_scheme="dark")
    sheet.get_by_label("Colours").select_option("light")
    expect(sheet.locator("html")).to_have_css("background-color", light)


def test_keys_go_to_pages(stage: Stage) -> None:
    sheet = stage.open("/")
    sheet.keyboard.press("g")
    sheet.keyboard.press("b")
    expect(sheet.get_by_role("navigation", name="Pages").get_by_role("link", name="Brokers")).to_have_attribute(
        "aria-current", "page"
    )
    sheet.keyboard.press("?")
    expect(sheet.get_by_role("dialog")).to_be_visible()
    sheet.keyboard.press("Escape")
    expect(sheet.get_by_role("dialog")).to_be_hidden()


def test_pages_can_be_visited_again_and_back_goes_where_one_was(stage: Stage) -> None:
    sheet = stage.open("/topics")
    pages = sheet.get_by_role("navigation", name="Pages")
    pages.get_by_role("link", name="Brokers").click()
    expect(sheet.get_by_role("link", name="broker-1")).to_be_visible()
    sheet.go_back()
    expect(sheet.locator("main h1")).to_have_text("Topics")
    sheet.go_forward()
    sheet.get_by_role("link", name="broker-1").click()
    expect(sheet.locator("main h1")).to_have_text("broker-1")
    sheet.go_back()
    expect(sheet.locator("main h1")).to_have_text("Brokers")


def test_an_address_without_a_page_says_so(stage: Stage) -> None:
    sheet = stage.open("/nowhere")
    expect(sheet.locator("main h1")).to_have_text("There is no page at /nowhere")
    sheet.locator("main").get_by_role("link", name="Overview").click()
    expect(sheet.locator("main h1")).to_have_text("Overview")


def test_a_server_that_was_started_again_asks_for_its_new_token(stage: Stage) -> None:
    stage.expected |= {401}
    sheet = stage.open("/brokers")
    expect(sheet.get_by_role("link", name="broker-1")).to_be_visible()
    port = urlsplit(stage.page.address).port or 0
    stage.page.stop()
    expect(sheet.get_by_text("does not answer; trying again")).to_be_visible()
    with Page(stage.namesrv, PageOptions(port=port)) as page:
        sheet.get_by_label("Token").fill(page.options.token)
        sheet.get_by_role("button").click()
        expect(sheet.get_by_role("link", name="broker-1")).to_be_visible()
