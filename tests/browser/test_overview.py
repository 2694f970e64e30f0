"""The overview: rates that move, what looks wrong and where it can be seen, brokers and what they cannot tell."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

from playwright.sync_api import expect

from steelyard import Admin, ClientConfig, Consumer, Message, Producer
from steelyard.client.consumer.received_message import ReceivedMessage
from tests.browser.many_groups import ManyGroups
from tests.browser.stage import BrowserStage
from tests.live.clusters import until


def _ignored(message: ReceivedMessage) -> None:
    del message


def _send_until(namesrv: str, topic: str, over: Event) -> None:
    with Producer(namesrv) as producer:
        while not over.wait(0.01):
            producer.send(Message(topic, b"tick"))


def test_rates_move_while_messages_pass_and_fall_when_they_end(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("ticks", 2)
    page = stage.open("/")
    fact = page.locator(".fact", has_text="In").first.locator("dd")
    expect(fact).to_have_text("0/s")
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send_until, stage.namesrv, "ticks", over)
        expect(fact).not_to_have_text("0/s")
        busiest = page.get_by_role("region", name="Busiest topics")
        expect(busiest.get_by_role("link", name="ticks")).to_be_visible()
        over.set()
        sending.result()
    expect(fact).to_have_text("0/s")
    # Who comes later sees the past, too: the server keeps it.
    later = stage.open("/")
    expect(later.get_by_role("img", name="Rates of the last minutes")).to_be_visible()


def test_a_group_that_nobody_reads_for_is_shown_with_a_way_to_it(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1)
        consumer = Consumer(ClientConfig(stage.namesrv), group="billing", start_from="first")
        consumer.handles("orders")(_ignored)
        with consumer:
            stage.send("orders", "first")
            until(lambda: any(row.committed for row in admin.offsets.list("billing")), "billing to commit")
        stage.send("orders", "one", "two", "three")
    page = stage.open("/")
    wrong = page.get_by_role("region", name="Warnings")
    expect(wrong).to_contain_text("group billing has no member online and a lag of 3 messages")
    expect(page.get_by_role("region", name="Largest lag").get_by_role("link", name="billing")).to_be_visible()
    wrong.get_by_role("link", name="open billing").click()
    expect(page.locator("main h1")).to_contain_text("billing")


def test_two_with_one_id_and_members_without_a_queue_are_named(stage: BrowserStage) -> None:
    with ExitStack() as online:
        # The same id on two lines, as two machines from one image have it.
        for _ in range(2):
            online.enter_context(ManyGroups(stage.namesrv)).create(4, 1)
        with Admin(stage.namesrv) as admin:
            admin.topics.create("mails", 1)
        for number in range(3):
            consumer = Consumer(ClientConfig(stage.namesrv, name=f"till-{number}"), group="mailer")
            consumer.handles("mails")(_ignored)
            online.enter_context(consumer)
        page = stage.open("/")
        wrong = page.get_by_role("region", name="Warnings")
        expect(wrong).to_contain_text("group group-000 has the client id crowd on several connections")
        expect(wrong).to_contain_text("group mailer has 3 members and 2 queues, so till-")
        expect(wrong.get_by_role("link", name="open mailer")).to_have_attribute("href", "/groups/mailer")
    expect(wrong).not_to_contain_text("several connections")


def test_a_broker_that_is_gone_is_said_to_be(stage: BrowserStage) -> None:
    page = stage.open("/")
    rows = page.get_by_role("region", name="Brokers").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(page.get_by_role("region", name="Warnings")).to_contain_text("None:")
    assert stage.cluster is not None
    stage.cluster.kill_broker("broker-1")
    expect(page.locator(".fact", has_text="Brokers up")).not_to_contain_text("2 of 2")


def test_any_cluster_has_an_overview(any_stage: BrowserStage) -> None:
    topic, group = "overview-seen", "overview-seers"
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create(topic, 2)
        handled: list[ReceivedMessage] = []
        consumer = Consumer(ClientConfig(any_stage.namesrv), group=group, start_from="first")
        consumer.handles(topic)(handled.append)
        with consumer:
            any_stage.send(topic, "first", "second")
            until(lambda: len(handled) == 2, "both messages")
            page = any_stage.open("/")
            facts = page.locator("main .facts")
            expect(facts).to_contain_text("Lag")
            expect(facts).to_contain_text("of")
            rows = page.get_by_role("region", name="Brokers").locator("tbody tr")
            expect(rows.first.locator(".badge.good")).to_be_visible()
            expect(page.get_by_role("img", name="Rates of the last minutes")).to_be_visible()
            expect(page.get_by_text("polling:")).to_have_count(0)
            expect(page.get_by_role("region", name="Warnings")).not_to_contain_text(group)
    expect(page.locator(".command code")).to_contain_text("steelyard cluster stats")
