"""The page of producers: who walks around which broker is seen within two seconds, and who tells nothing is named."""

from playwright.sync_api import expect
from tests.browser.stage import Stage

from steelyard import Admin, Message, Producer


def test_a_broker_that_a_producer_walks_around_is_seen_without_reload(stage: Stage) -> None:
    assert stage.cluster is not None
    with Admin(stage.namesrv) as admin:
        admin.create_topic("orders", 2)
    sheet = stage.open("/producers")
    expect(sheet.get_by_text("Nobody sends at the moment.")).to_be_visible()
    with Producer(stage.namesrv, group="shop", avoid_slow_brokers=True) as producer:
        for _ in range(8):
            producer.send(Message("orders", b"x"))
        ledger = sheet.get_by_role("region", name="Ledger of broker latency")
        expect(ledger.get_by_role("row", name=producer.client_id[-10:])).to_be_visible(timeout=5_000)
        expect(ledger.get_by_role("columnheader", name="broker-1")).to_be_visible(timeout=5_000)
        expect(sheet.get_by_text("What looks wrong")).to_be_hidden()
        stage.cluster.kill_broker("broker-1")
        while not any(each.share == 0 for each in producer.brokers()):
            producer.send(Message("orders", b"x"))
        expect(ledger.get_by_text("avoided,")).to_be_visible(timeout=3_000)
        expect(sheet.get_by_text("1 producer walks around broker-1: it failed.")).to_be_visible(timeout=2_000)
        stage.cluster.start_broker("broker-1")
        expect(ledger.get_by_text("avoided,")).to_be_hidden(timeout=30_000)
    expect(sheet.get_by_text("Nobody sends at the moment.")).to_be_visible(timeout=5_000)


def test_hostile_names_are_shown_as_text(stage: Stage) -> None:
    with Producer(stage.namesrv, group="shop_%RETRY%-_") as producer:
        producer.send(Message("orders", b"x"))
        sheet = stage.open("/producers")
        expect(sheet.get_by_role("row", name="shop_%RETRY%-_")).to_be_visible(timeout=5_000)


def test_it_is_there_in_chinese(stage: Stage) -> None:
    with Producer(stage.namesrv, group="shop") as producer:
        producer.send(Message("orders", b"x"))
        sheet = stage.open("/producers", locale="zh-CN")
        expect(sheet.get_by_role("heading", name="Broker 延迟账本")).to_be_visible(timeout=5_000)
        expect(sheet.get_by_text("1 个生产者没有上报账本")).to_be_visible()


def test_any_cluster_shows_its_producers_and_says_what_it_does_not_tell(any_stage: Stage) -> None:
    with Admin(any_stage.namesrv) as admin:
        admin.create_topic("page-producers", 2)
    with Producer(any_stage.namesrv, group="page-producers") as producer:
        producer.send(Message("page-producers", b"x"))
        sheet = any_stage.open("/producers")
        row = sheet.get_by_role("region", name="All producers").get_by_role("row", name="page-producers")
        expect(row).to_contain_text("PYTHON", timeout=40_000)
        expect(row).to_contain_text("not told")
        expect(sheet.get_by_role("region", name="What this cluster does not tell")).to_contain_text("no ledger")
        expect(sheet.locator("figure.command code")).to_contain_text("steelyard producer ledger")
