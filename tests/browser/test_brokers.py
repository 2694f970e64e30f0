"""The pages of brokers: disk, flushing and the last start; a broker that dies and comes back is seen without reload."""

from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.browser.stage import Stage

from steelyard import Admin
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.serve.embedded import Cluster


def test_a_broker_that_dies_and_comes_back_is_seen_without_reload(browser: Browser, tmp_path: Path) -> None:
    with Cluster(brokers=2, data=tmp_path) as cluster, Page(cluster.namesrv, PageOptions(port=0)) as page:
        stage = Stage(browser, page, cluster, cluster.namesrv)
        with Admin(cluster.namesrv) as admin:
            admin.create_topic("orders", 4)  # on both: a topic that a send makes may be on one of them
        stage.send("orders", *(b"x" for _ in range(20)))
        sheet = stage.open("/brokers")
        first, second = (sheet.get_by_role("row", name=name) for name in ("broker-0", "broker-1"))
        for row in (first, second):
            expect(row).to_contain_text("every 500 ms", timeout=5_000)
            expect(row).to_contain_text("empty")
            expect(row.get_by_role("img", name="free")).to_be_visible()
        cluster.kill_broker("broker-1")
        expect(sheet.get_by_text("1 / 2").or_(sheet.get_by_text("1 / 1")).first).to_be_visible(timeout=15_000)
        cluster.start_broker("broker-1")
        expect(second).to_contain_text("not closed", timeout=15_000)
        expect(second).to_contain_text("read again in")
        second.get_by_role("link", name="broker-1").click()
        expect(sheet.locator("main h1")).to_have_text("broker-1")
        expect(sheet.get_by_text("so every record was read and checked again")).to_be_visible(timeout=5_000)
        stage.close()
        assert not stage.complaints


def test_one_broker_is_shown_in_full_and_its_settings_can_be_searched(stage: Stage) -> None:
    stage.send("orders", *(b"x" for _ in range(50)))
    sheet = stage.open("/brokers/broker-0")
    for name in ("Messages a second", "Disk", "Flushing", "Last start", "Settings"):
        expect(sheet.get_by_role("heading", name=name)).to_be_visible(timeout=5_000)
    settings = sheet.get_by_role("region", name="Settings")
    expect(settings.get_by_role("row")).to_have_count(13)
    sheet.get_by_placeholder("Search").fill("flushDisk")
    expect(settings.get_by_role("row", name="flushDiskType")).to_contain_text("ASYNC_FLUSH")
    expect(settings.get_by_role("row")).to_have_count(2)
    commands = sheet.locator("figure.command code")
    expect(commands.nth(0)).to_contain_text("steelyard broker show broker-0")
    expect(commands.nth(1)).to_contain_text("steelyard broker config show broker-0")


def test_a_broker_that_is_not_there_is_said(stage: Stage) -> None:
    stage.expected.add(404)
    sheet = stage.open("/brokers/broker-9")
    expect(sheet.get_by_role("alert").first).to_contain_text("knows no broker 'broker-9'", timeout=5_000)


def test_it_is_there_in_chinese(stage: Stage) -> None:
    sheet = stage.open("/brokers", locale="zh-CN")
    expect(sheet.get_by_role("row", name="broker-0")).to_contain_text("空目录", timeout=5_000)


def test_any_cluster_shows_its_brokers_and_says_what_they_do_not_tell(any_stage: Stage) -> None:
    sheet = any_stage.open("/brokers")
    rows = sheet.get_by_role("region", name="Brokers").locator("tbody tr")
    expect(rows.first).to_contain_text("not flushed", timeout=15_000)
    told = rows.first.inner_text()
    name = rows.first.get_by_role("link").inner_text()
    notes = sheet.get_by_role("region", name="What this cluster does not tell")
    if "not told" in told:
        expect(notes).to_contain_text(f"{name}")
    else:
        expect(notes).to_be_hidden()
    sheet.goto(f"{any_stage.page.address}brokers/{name}")
    expect(sheet.get_by_text("The log is flushed")).to_be_visible(timeout=15_000)
    expect(sheet.get_by_text("every 500 ms").or_(sheet.get_by_text("before each answer"))).to_be_visible(timeout=15_000)


def test_damage_that_a_start_found_is_shown_place_by_place(browser: Browser, tmp_path: Path) -> None:
    with Cluster(brokers=1, data=tmp_path) as cluster, Page(cluster.namesrv, PageOptions(port=0)) as page:
        stage = Stage(browser, page, cluster, cluster.namesrv)
        stage.send("orders", *(b"x" * 100 for _ in range(5)))
        cluster.kill_broker("broker-0")
        (log,) = tmp_path.rglob("commitlog/0*")
        with log.open("r+b") as file:
            file.seek(30)
            file.write(b"\xff" * 4)
        cluster.start_broker("broker-0")
        sheet = stage.open("/brokers/broker-0")
        expect(sheet.get_by_text("1 place in the log of broker-0 is damaged.")).to_be_visible(timeout=5_000)
        row = sheet.get_by_role("region", name="Damaged places").get_by_role("row", name=f"commitlog/{log.name}")
        expect(row).to_contain_text("damaged")
        stage.close()
        assert not stage.complaints
