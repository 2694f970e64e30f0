"""The pages of brokers: disk, flushing and the last start; a broker that dies and comes back is seen without reload."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from steelyard import Admin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from steelyard.version import __version__
from tests.browser.stage import BrowserStage
from tests.cli.fake_apache import FakeServer, fake_apache


def test_a_broker_that_dies_and_comes_back_is_seen_without_reload(browser: Browser, tmp_path: Path) -> None:
    with (
        Cluster(brokers=2, data=tmp_path) as cluster,
        Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard,
    ):
        stage = BrowserStage(browser, dashboard, cluster, cluster.namesrv)
        with Admin(cluster.namesrv) as admin:
            admin.topics.create("orders", 4)  # on both: a topic that a send makes may be on one of them
        stage.send("orders", *(b"x" for _ in range(20)))
        page = stage.open("/brokers")
        first, second = (page.get_by_role("row", name=name) for name in ("broker-0", "broker-1"))
        for row in (first, second):
            expect(row).to_contain_text("every 500 ms")
            expect(row).to_contain_text("empty")
            expect(row.get_by_role("img", name="free")).to_be_visible()
        cluster.kill_broker("broker-1")
        expect(page.get_by_text("1 / 2").or_(page.get_by_text("1 / 1")).first).to_be_visible()
        cluster.start_broker("broker-1")
        expect(second).to_contain_text("unclean")
        expect(second).to_contain_text("recovered in")
        second.get_by_role("link", name="broker-1").click()
        expect(page.locator("main h1")).to_have_text("broker-1")
        expect(page.get_by_text("so every record was read and checked again")).to_be_visible()
        stage.close()
        assert not stage.complaints


def test_one_broker_is_shown_in_full_and_its_settings_can_be_searched(stage: BrowserStage) -> None:
    stage.send("orders", *(b"x" for _ in range(50)))
    page = stage.open("/brokers/broker-0")
    for name in ("Messages per second", "Disk", "Flushing", "Last start", "Settings"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    settings = page.get_by_role("region", name="Settings")
    expect(settings.get_by_role("row")).to_have_count(13)
    page.get_by_placeholder("Search").fill("flushDisk")
    expect(settings.get_by_role("row", name="flushDiskType")).to_contain_text("ASYNC_FLUSH")
    expect(settings.get_by_role("row")).to_have_count(2)
    commands = page.locator("figure.command code")
    expect(commands.nth(0)).to_contain_text("steelyard broker show broker-0")
    expect(commands.nth(1)).to_contain_text("steelyard broker config show broker-0")


def test_the_product_stands_beside_the_protocol_that_it_speaks(stage: BrowserStage) -> None:
    version = f"Steelyard {__version__}, speaks V5_5_0"
    page = stage.open("/brokers")
    expect(page.get_by_role("row", name="broker-0")).to_contain_text(version)
    page.get_by_role("link", name="broker-0").click()
    expect(page.locator(".fact", has_text="Version").locator("dd")).to_have_text(version)
    with fake_apache({"broker-a": {0: FakeServer()}}) as namesrv, Dashboard(namesrv, DashboardOptions(port=0)) as other:
        apache = BrowserStage(stage.browser, other, None, namesrv)
        release = apache.open("/brokers").get_by_role("row", name="broker-a")
        expect(release).to_contain_text("5.5.0 (protocol V5_5_0)")
        apache.close()


def test_a_broker_that_is_not_there_is_reported(stage: BrowserStage) -> None:
    stage.expected.add(404)
    page = stage.open("/brokers/broker-9")
    expect(page.get_by_role("alert").first).to_contain_text("knows no broker 'broker-9'")


def test_it_is_there_in_chinese(stage: BrowserStage) -> None:
    page = stage.open("/brokers", locale="zh-CN")
    expect(page.get_by_role("row", name="broker-0")).to_contain_text("空目录")


def test_any_cluster_shows_its_brokers_and_says_what_they_do_not_tell(any_stage: BrowserStage) -> None:
    page = any_stage.open("/brokers")
    rows = page.get_by_role("region", name="Brokers").locator("tbody tr")
    expect(rows.first).to_contain_text("not flushed")
    reported = rows.first.inner_text()
    name = rows.first.get_by_role("link").inner_text()
    notes = page.get_by_role("region", name="Not reported by this cluster")
    if "not reported" in reported:
        expect(notes).to_contain_text(f"{name}")
    else:
        expect(notes).to_be_hidden()
    page.goto(f"{any_stage.dashboard.address}brokers/{name}")
    expect(page.get_by_text("Flush mode")).to_be_visible()
    expect(page.get_by_text("every 500 ms").or_(page.get_by_text("before each response"))).to_be_visible()


def test_damage_that_a_start_found_is_shown_place_by_place(browser: Browser, tmp_path: Path) -> None:
    with (
        Cluster(brokers=1, data=tmp_path) as cluster,
        Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard,
    ):
        stage = BrowserStage(browser, dashboard, cluster, cluster.namesrv)
        stage.send("orders", *(b"x" * 100 for _ in range(5)))
        cluster.kill_broker("broker-0")
        (log,) = tmp_path.rglob("commitlog/0*")
        with log.open("r+b") as file:
            file.seek(30)
            file.write(b"\xff" * 4)
        cluster.start_broker("broker-0")
        page = stage.open("/brokers/broker-0")
        expect(page.get_by_text("The log of broker-0 is damaged in 1 place.")).to_be_visible()
        row = page.get_by_role("region", name="Damaged records").get_by_role("row", name=f"commitlog/{log.name}")
        expect(row).to_contain_text("damaged")
        stage.close()
        assert not stage.complaints
