"""The page of producers: who walks around which broker is seen within two seconds, and who tells nothing is named."""

from playwright.sync_api import expect

from steelyard import Admin, Message, Producer
from tests.browser.stage import BrowserStage


def test_a_broker_that_a_producer_avoids_is_seen_without_reload(stage: BrowserStage) -> None:
    assert stage.cluster is not None
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 2)
    page = stage.open("/producers")
    expect(page.get_by_text("No producers are online.")).to_be_visible()
    with Producer(stage.namesrv, group="shop", avoid_slow_brokers=True) as producer:
        for _ in range(8):
            producer.send(Message("orders", b"x"))
        latency = page.get_by_role("region", name="Broker latency by producer")
        expect(latency.get_by_role("row", name=producer.client_id.partition("#")[0])).to_be_visible()
        expect(latency.get_by_role("columnheader", name="broker-1")).to_be_visible()
        expect(page.get_by_text("Warnings")).to_be_hidden()
        stage.cluster.kill_broker("broker-1")
        while not any(each.share == 0 for each in producer.brokers()):
            producer.send(Message("orders", b"x"))
        expect(latency.get_by_text("avoided,")).to_be_visible()
        expect(page.get_by_text("1 producer avoids broker-1: it failed.")).to_be_visible()
        stage.cluster.start_broker("broker-1")
        expect(latency.get_by_text("avoided,")).to_be_hidden()
    expect(page.get_by_text("No producers are online.")).to_be_visible()


def test_hostile_names_are_shown_as_text(stage: BrowserStage) -> None:
    with Producer(stage.namesrv, group="shop_%RETRY%-_") as producer:
        producer.send(Message("orders", b"x"))
        page = stage.open("/producers")
        expect(page.get_by_role("row", name="shop_%RETRY%-_")).to_be_visible()


def test_it_is_there_in_chinese(stage: BrowserStage) -> None:
    with Producer(stage.namesrv, group="shop") as producer:
        producer.send(Message("orders", b"x"))
        page = stage.open("/producers", locale="zh-CN")
        expect(page.get_by_role("heading", name="各生产者的 Broker 延迟")).to_be_visible()
        expect(page.get_by_text("1 个生产者没有上报延迟")).to_be_visible()


def test_any_cluster_shows_its_producers_and_says_what_it_does_not_tell(any_stage: BrowserStage) -> None:
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create("page-producers", 2)
    with Producer(any_stage.namesrv, group="page-producers") as producer:
        producer.send(Message("page-producers", b"x"))
        page = any_stage.open("/producers")
        row = page.get_by_role("region", name="All producers").get_by_role("row", name="page-producers")
        expect(row).to_contain_text("PYTHON")
        expect(row).to_contain_text("not reported")
        expect(page.get_by_role("region", name="Not reported by this cluster")).to_contain_text("no latency")
        expect(page.locator("figure.command code")).to_contain_text("steelyard producer latency")
