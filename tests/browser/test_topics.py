"""Topics: the users' own apart from the others, one of them by its queues, and a key that fills one queue."""

from playwright.sync_api import expect
from tests.browser.stage import Stage
from tests.live.clusters import until

from steelyard import Admin, Connect, Consumer, Message, Producer


def test_the_users_topics_are_apart_from_the_servers(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 2)
        admin.create_topic("mails", 1)
    sheet = stage.open("/topics")
    rows = sheet.locator("main tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_role("rowheader")).to_have_text("mails")
    sheet.get_by_role("navigation", name="Kinds of topics").get_by_role("link", name="System").click()
    expect(sheet.get_by_role("link", name="TBW102")).to_be_visible()
    assert sheet.url.endswith("/topics?kind=system")


def test_a_topic_that_comes_and_goes_is_seen_without_a_reload(stage: Stage) -> None:
    sheet = stage.open("/topics")
    expect(sheet.get_by_text("There is no topic of this kind")).to_be_visible()
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 2)
        expect(sheet.get_by_role("link", name="orders")).to_be_visible(timeout=20_000)
        admin.delete_topic("orders")
        expect(sheet.get_by_role("link", name="orders")).to_have_count(0, timeout=20_000)


def test_a_key_that_gets_more_than_its_share_is_said_in_a_sentence(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 4)
    sheet = stage.open("/topics/orders")
    queues = sheet.get_by_role("region", name="Queues").locator("tbody tr")
    expect(queues).to_have_count(8)
    with Producer(stage.namesrv) as producer:
        for _ in range(200):
            producer.send(Message("orders", b"x"), key="one customer")
    wrong = sheet.get_by_role("region", name="What looks wrong")
    expect(wrong).to_contain_text("100% of what comes in now, 8.0 times its share", timeout=10_000)
    expect(wrong).to_contain_text("do many messages have one key?")
    expect(sheet.get_by_text("7 of 8 queues are empty")).to_be_visible()
    hot = queues.filter(has_text="200 · 100 %")
    expect(hot).to_have_count(1)
    hot.get_by_role("link").click()
    expect(sheet.locator("main h1")).to_be_visible()
    assert sheet.url.endswith("/199")


def test_who_reads_a_topic_and_how_far_behind_is_shown(stage: Stage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 1)
    handled: list[bytes] = []
    consumer = Consumer(Connect(stage.namesrv), group="billing", start_from="first")
    consumer.handles("orders")(lambda message: handled.append(message.body))
    with consumer:
        stage.send("orders", "one", "two")
        until(lambda: len(handled) == 2, "both messages")
        sheet = stage.open("/topics/orders")
        row = sheet.get_by_role("region", name="Groups that read it").locator("tbody tr")
        expect(row).to_have_count(1, timeout=10_000)
        expect(row.get_by_role("link")).to_have_text("billing")
        expect(row.locator("td").last).to_have_text("1")
    expect(row.locator("td").last).to_have_text("nobody", timeout=15_000)
    stage.send("orders", "three", "four", "five")
    expect(row.locator("td").first).to_have_text("3", timeout=15_000)


def test_a_topic_that_is_not_there_is_said_to_be_missing(stage: Stage) -> None:
    sheet = stage.open("/topics/nowhere")
    expect(sheet.get_by_role("alert")).to_contain_text("nowhere")


def test_any_cluster_has_topics(any_stage: Stage) -> None:
    with Admin(any_stage.namesrv) as admin:
        made = admin.create_topic("topics-seen", 2)
        any_stage.send("topics-seen", *(f"message {number}" for number in range(40)))
        sheet = any_stage.open("/topics")
        row = sheet.locator("main tbody tr", has_text="topics-seen")
        expect(row).to_contain_text("40", timeout=20_000)
        sheet.get_by_role("link", name="topics-seen").click()
        rows = sheet.get_by_role("region", name="Queues").locator("tbody tr")
        expect(rows).to_have_count(len(made.queues))
        expect(sheet.locator("main .facts")).to_contain_text("40")
        expect(sheet.get_by_text("How even it is:")).to_be_visible()
        expect(sheet.get_by_text("Nobody reads it.")).to_be_visible()
        expect(sheet.locator(".command code").first).to_contain_text("steelyard topic show topics-seen")
