"""Topics: the users' own apart from the others, one of them by its queues, and a key that fills one queue."""

from playwright.sync_api import expect

from steelyard import Admin, ClientConfig, Consumer, Message, Producer
from tests.browser.stage import BrowserStage
from tests.live.clusters import until


def test_the_users_topics_are_apart_from_the_servers(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
        admin.topics.create("mails", 1)
    page = stage.open("/topics")
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_role("rowheader")).to_have_text("mails")
    page.get_by_role("navigation", name="Kinds of topics").get_by_role("link", name="System").click()
    expect(page.get_by_role("link", name="TBW102")).to_be_visible()
    assert page.url.endswith("/topics?kind=system")


def test_a_topic_that_comes_and_goes_is_seen_without_a_reload(stage: BrowserStage) -> None:
    page = stage.open("/topics")
    expect(page.get_by_text("No topics of this kind")).to_be_visible()
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
        expect(page.get_by_role("link", name="orders")).to_be_visible()
        admin.topics.delete("orders")
        expect(page.get_by_role("link", name="orders")).to_have_count(0)


def test_a_key_that_gets_more_than_its_share_is_said_in_a_sentence(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 4)
    page = stage.open("/topics/orders")
    queues = page.get_by_role("region", name="Queues").locator("tbody tr")
    expect(queues).to_have_count(8)
    with Producer(stage.namesrv) as producer:
        for _ in range(200):
            producer.send(Message("orders", b"x"), key="one customer")
    wrong = page.get_by_role("region", name="Warnings")
    expect(wrong).to_contain_text("100 % of what comes in now, 8.0 times its share")
    expect(wrong).to_contain_text("do many messages have one key?")
    expect(page.get_by_text("7 of 8 queues are empty")).to_be_visible()
    hot = queues.filter(has_text="200 · 100 %")
    expect(hot).to_have_count(1)
    hot.get_by_role("link").click()
    expect(page.locator("main h1")).to_be_visible()
    assert page.url.endswith("/199")


def test_who_reads_a_topic_and_how_far_behind_is_shown(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
    handled: list[bytes] = []
    consumer = Consumer(ClientConfig(stage.namesrv), group="billing", start_from="first")
    consumer.handles("orders")(lambda message: handled.append(message.body))
    with consumer:
        stage.send("orders", "one", "two")
        until(lambda: len(handled) == 2, "both messages")
        page = stage.open("/topics/orders")
        row = page.get_by_role("region", name="Consumer groups").locator("tbody tr")
        expect(row).to_have_count(1)
        expect(row.get_by_role("link")).to_have_text("billing")
        expect(row.locator("td").last).to_have_text("1")
    expect(row.locator("td").last).to_have_text("none")
    stage.send("orders", "three", "four", "five")
    expect(row.locator("td").first).to_have_text("3")


def test_a_topic_that_is_not_there_is_said_to_be_missing(stage: BrowserStage) -> None:
    page = stage.open("/topics/nowhere")
    expect(page.get_by_role("alert")).to_contain_text("nowhere")


def test_any_cluster_has_topics(any_stage: BrowserStage) -> None:
    with Admin(any_stage.namesrv) as admin:
        made = admin.topics.create("topics-seen", 2)
        any_stage.send("topics-seen", *(f"message {number}" for number in range(40)))
        page = any_stage.open("/topics")
        row = page.locator("main tbody tr", has_text="topics-seen")
        expect(row).to_contain_text("40")
        page.get_by_role("link", name="topics-seen").click()
        rows = page.get_by_role("region", name="Queues").locator("tbody tr")
        expect(rows).to_have_count(len(made.queues))
        expect(page.locator("main .facts")).to_contain_text("40")
        expect(page.get_by_text("Distribution:")).to_be_visible()
        expect(page.get_by_text("No group consumes it.")).to_be_visible()
        expect(page.locator(".command code").first).to_contain_text("steelyard topic show topics-seen")
