"""The ownership grid in a real browser: who joins, leaves and dies is seen at once, and the past can be looked at."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from steelyard import Admin
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.client.admin.groups import GroupAdmin
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.rate_history import RateHistory, RateSample
from steelyard.dashboard.server import Dashboard
from steelyard.diagnostics.group import ProgressSample
from steelyard.model import Queue
from steelyard.net.clock import now_ms
from steelyard.serve.embedded import Cluster
from tests.browser.member_processes import MemberProcess
from tests.browser.stage import BrowserStage
from tests.dashboard.foreign_members import ForeignMember
from tests.dashboard.group_scenes import check_command, run_members
from tests.live.clusters import until

_FORMER_OWNER = """(name) => document.querySelectorAll("table.grid .was").length === 4 &&
  document.querySelector("table.grid th.is-gone")?.textContent.includes(name)"""


def _topic(stage: BrowserStage, queues: int = 4) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", queues)


def _marks(page: Page, name: str) -> Locator:
    """Find the marks in the column of a member that is shown."""
    page.locator(f'table.grid thead th[data-member="{name}"]').wait_for()
    heads = page.locator("table.grid thead th").all()
    place = next(place for place, head in enumerate(heads) if head.get_attribute("data-member") == name)
    return page.locator(f"table.grid tbody tr[data-queue] > :nth-child({place + 1}) .mark")


def _heads(page: Page) -> Locator:
    """Find the heads of members that are there."""
    return page.locator("table.grid thead th.member[data-member]:not(.is-gone)")


def _settled(page: Page, members: int) -> None:
    expect(_heads(page)).to_have_count(members)
    expect(page.locator("[data-state=stable]")).to_be_visible()


def test_joining_and_leaving_is_seen_without_a_reload(stage: BrowserStage) -> None:
    _topic(stage)
    with run_members(stage.namesrv, "billing", "orders", "c1"):
        page = stage.open("/groups/billing")
        _settled(page, 1)
        expect(_marks(page, "c1")).to_have_count(8)
        page.evaluate("window.isTheSame = true")
        with run_members(stage.namesrv, "billing", "orders", "c2", of=2) as (second,):
            # Since then all queues have their new owners.
            expect(_heads(page)).to_have_count(2)
            expect(_marks(page, "c1")).to_have_count(4)
            expect(_marks(page, "c2")).to_have_count(4)
            expect(page.get_by_text("c2 joined").first).to_be_visible()
            second.stop()
            expect(_heads(page)).to_have_count(1)
            expect(_marks(page, "c1")).to_have_count(8)
            expect(page.get_by_text("c2 left").first).to_be_visible()
        assert page.evaluate("window.isTheSame")


def test_a_kill_is_seen_without_a_reload_and_for_a_moment_who_had_the_queues(stage: BrowserStage) -> None:
    _topic(stage)
    with (
        run_members(stage.namesrv, "billing", "orders", "c1"),
        MemberProcess(stage.namesrv, "billing", "orders", "doomed") as doomed,
    ):
        page = stage.open("/groups/billing")
        _settled(page, 2)
        expect(_marks(page, "doomed")).to_have_count(4)
        page.evaluate("window.isTheSame = true")
        doomed.kill()
        page.wait_for_function(_FORMER_OWNER, arg="doomed")  # in the page: a look from here may come too late
        expect(_heads(page)).to_have_count(1)
        expect(_marks(page, "c1")).to_have_count(8)
        expect(page.get_by_text("doomed disconnected").first).to_be_visible()
        assert page.evaluate("window.isTheSame")


def test_the_history_is_scrubbed_by_keys_by_hand_and_by_address(stage: BrowserStage) -> None:
    _topic(stage)
    with run_members(stage.namesrv, "billing", "orders", "c1"):
        page = stage.open("/groups/billing")
        _settled(page, 1)
        rebalances = page.locator(".rebalances > li")
        expect(rebalances).to_have_count(1)
        with run_members(stage.namesrv, "billing", "orders", "c2", of=2):
            _settled(page, 2)
            _recorded(page, "c2 joined")
            expect(rebalances).to_have_count(2)
        _settled(page, 1)
        expect(rebalances).to_have_count(3)
        slider = page.get_by_role("slider", name="Step through the rebalance history")
        slider.focus()
        slider.press("ArrowLeft")
        expect(page.get_by_role("heading", name="Queue ownership at")).to_be_visible()
        expect(page.locator(".ownership .reason")).to_contain_text("c2 left")
        # Further back are the moves of the other broker, and then the time with two members.
        _go_back_to(page, "c2 joined")
        expect(_marks(page, "c2")).to_have_count(4)
        expect(_marks(page, "c1")).to_have_count(4)
        expect(page.locator("table.grid tbody td.lag").first).to_have_text("\u2013")
        expect(page.locator(".rebalances > li.here")).to_contain_text("c2 joined")
        # The address has it: somebody else sees the same.
        page.wait_for_url("**at=*")
        other = stage.open(page.url.removeprefix(stage.dashboard.address.rstrip("/")))
        expect(_marks(other, "c2")).to_have_count(4)
        expect(other.locator(".ownership .reason")).to_contain_text("c2 joined")
        other.get_by_role("button", name="Back to live").click()
        _settled(other, 1)
        slider.press("End")
        expect(page.get_by_role("heading", name="Queue ownership")).to_be_visible()
        expect(_marks(page, "c1")).to_have_count(8)
        # A rebalance of the list is gone to, with all its moves.
        joined = page.locator(".rebalances > li", has_text="c2 joined")
        joined.get_by_role("button").click()
        expect(_marks(page, "c2")).to_have_count(4)
        joined.locator("summary").click()
        expect(joined.locator("tbody tr").first).to_contain_text("c1 → c2")
        page.get_by_role("button", name="Play").click()
        expect(page.get_by_role("heading", name="Queue ownership")).to_be_visible()


def _recorded(page: Page, reason: str) -> None:
    """Wait until the newest rebalance has its moves of both brokers: each records its own, a moment after it is over.

    What happens before that is in the same record: its grid is the one after all of it.
    """
    newest = page.locator(".rebalances > li").first
    expect(newest).to_contain_text(reason)
    expect(newest).to_contain_text("5 queues moved")  # four of eight, and one of the two retry queues


def _go_back_to(page: Page, reason: str) -> None:
    """Go back in the history until the grid of this reason is shown."""
    slider = page.get_by_role("slider", name="Step through the rebalance history")
    wanted = page.locator(".ownership.past .reason", has_text=reason)
    for _ in range(12):
        slider.press("ArrowLeft")
        slider.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if wanted.count():
            return
    expect(wanted).to_be_visible()


def test_the_history_survives_a_restart_of_dashboard_and_broker(browser: Browser, tmp_path: Path) -> None:
    with _playing(browser, tmp_path) as stage:
        _topic(stage)
        with (
            run_members(stage.namesrv, "billing", "orders", "c1"),
            run_members(stage.namesrv, "billing", "orders", "c2", of=2),
        ):
            page = stage.open("/groups/billing")
            _settled(page, 2)
            expect(page.locator(".rebalances > li").first).to_contain_text("c2 joined")
    with _playing(browser, tmp_path) as stage:
        page = stage.open("/groups/billing")
        rebalances = page.locator(".rebalances > li", has_text="c2 joined")
        rebalances.get_by_role("button").click()
        expect(_marks(page, "c2")).to_have_count(2)
        expect(page.locator(".ownership .reason")).to_contain_text("c2 joined")


@contextmanager
def _playing(browser: Browser, data: Path) -> Iterator[BrowserStage]:
    with Cluster(data=data) as cluster, Dashboard(cluster.namesrv, DashboardOptions(port=0)) as dashboard:
        stage = BrowserStage(browser, dashboard, cluster, cluster.namesrv)
        try:
            yield stage
        finally:
            stage.close()
        assert not stage.complaints


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_the_history_never_covers_the_grid(stage: BrowserStage, width: int) -> None:
    _topic(stage, 16)
    with run_members(stage.namesrv, "billing", "orders", "c1", "c2"):
        page = stage.open("/groups/billing", viewport={"width": width, "height": 900})
        expect(page.locator("table.grid .mark")).to_have_count(32)
        grid, history = (page.locator(each).bounding_box() for each in (".grid-box", ".history"))
        assert grid is not None
        assert history is not None
        assert history["y"] >= grid["y"] + grid["height"]
        # Both are seen at once by those who scroll to them.
        assert history["y"] + history["height"] - grid["y"] <= 900 or width < 800
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_last_hours_are_drawn_by_a_server_that_was_started_again(
    stage: BrowserStage, browser: Browser, tmp_path: Path
) -> None:
    _topic(stage)
    history, now = RateHistory(tmp_path), now_ms()
    for minute in range(60):
        stored = 6_000 * minute
        history.add(RateSample(now - (60 - minute) * 60_000, {"orders": stored}, {"billing": (70 + minute, stored)}))
    dashboard = Dashboard(stage.namesrv, DashboardOptions(port=0))
    dashboard.keep_in(tmp_path, with_token=True)
    with run_members(stage.namesrv, "billing", "orders", "c1"), dashboard:
        again = BrowserStage(browser, dashboard, None, stage.namesrv)
        page = again.open("/groups/billing")
        for name, value in (("Lag", "129"), ("Consumed", "100/s")):
            card = page.get_by_role("region", name=f"{name}, last 6 h")
            expect(card.get_by_role("img", name=f"{name} since")).to_have_attribute(
                "aria-label", re.compile(f"now {value}$")
            )
            expect(card.locator("canvas")).to_be_visible()
        page = again.open("/topics/orders")
        expect(page.get_by_role("region", name="In, last 6 h").get_by_role("img", name="now 100/s")).to_be_visible()
        again.close()
        assert not again.complaints


def test_two_members_with_one_id_are_never_silent(stage: BrowserStage) -> None:
    _topic(stage)
    with ExitStack() as there:
        for _ in range(2):
            there.enter_context(ForeignMember(stage.namesrv)).join("10.0.0.7@worker", "billing", "orders")
        page = stage.open("/groups/billing")
        expect(page.get_by_role("region", name="Warnings")).to_contain_text("worker on several connections")
        listed = stage.open("/groups")
        expect(listed.get_by_role("row", name="billing")).to_contain_text("warning")


def test_members_without_a_queue_are_shown_as_idle(stage: BrowserStage) -> None:
    with Admin(stage.namesrv) as admin:
        admin.topics.create("orders", 1, brokers=["broker-0"])
    with (
        run_members(stage.namesrv, "billing", "orders", "c1"),
        run_members(stage.namesrv, "billing", "orders", "c2", of=2),
    ):
        page = stage.open("/groups/billing")
        expect(page.locator("th.member .badge", has_text="idle")).to_have_count(1)
        expect(page.get_by_role("region", name="Warnings")).to_contain_text("nothing to do")


def test_retries_are_folded_away(stage: BrowserStage) -> None:
    _topic(stage)
    with run_members(stage.namesrv, "billing", "orders", "c1"):
        page = stage.open("/groups/billing")
        _settled(page, 1)
        expect(page.locator("table.grid tbody")).to_have_count(2)
        page.get_by_role("button", name="2 retry queues").click()
        expect(page.locator("table.grid tbody")).to_have_count(4)
        assert page.url.endswith("?retries=1")


def _large(at_ms: int) -> GroupDescription:
    """Make a view of a thousand queues and a hundred members."""
    there = [
        MemberDescription(f"10.0.0.{number}@till-{number}#1@sy1", ours=True, strategy="STICKY") for number in range(100)
    ]
    queues = [Queue("orders", broker, number) for broker in ("broker-0", "broker-1") for number in range(500)]
    return describe_group(
        GroupFacts(
            group="large",
            at_ms=at_ms,
            members=tuple(there),
            queues=tuple(queues),
            locked={queue: there[place // 10].id for place, queue in enumerate(queues[1:])},
            our_brokers=frozenset({"broker-0", "broker-1"}),
            progress={
                queue: ProgressSample(at_ms, 0, (place * 37 + at_ms) % 5_000) for place, queue in enumerate(queues)
            },
        )
    )


def test_a_thousand_queues_and_a_hundred_members_have_a_compact_form(
    stage: BrowserStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = 0

    async def collect(*_: object, **__: object) -> GroupDescription:
        nonlocal polls
        polls += 1
        return _large(1_700_000_000_000 + polls)

    monkeypatch.setattr(GroupAdmin, "describe", collect)
    page = stage.open("/groups/large")
    expect(page.locator(".boxes > li")).to_have_count(1_000)
    expect(page.locator(".boxes .box.nobody")).to_have_count(1)
    # It goes on: every look has other numbers, and buttons work meanwhile.
    seen = page.locator(".boxes .under").nth(1).text_content() or ""
    expect(page.locator(".boxes .under").nth(1)).not_to_have_text(seen)
    page.get_by_text("100 members").click()
    page.get_by_role("button", name="till-7", exact=True).click()
    expect(page.locator(".boxes > li:not(.dim)")).to_have_count(10)


def test_it_is_shown_on_any_cluster(any_stage: BrowserStage) -> None:
    with Admin(any_stage.namesrv) as admin:
        admin.topics.create("page-orders", 4)
        until(lambda: len(admin.topics.describe("page-orders").queues) == 8, "the topic is there")
        keeps = admin.groups.has_rebalance_history()
    any_stage.send("page-orders", *(f"order {number}" for number in range(8)))
    with run_members(any_stage.namesrv, "page-billing", "page-orders", "c1"):
        page = any_stage.open("/groups/page-billing")
        expect(_heads(page)).to_have_count(1)
        expect(_marks(page, "c1")).to_have_count(8)
        with run_members(any_stage.namesrv, "page-billing", "page-orders", "c2", of=2):
            expect(_heads(page)).to_have_count(2)
            expect(_marks(page, "c2")).to_have_count(4)
            _recorded(page, "c2 joined")
            notes = page.get_by_role("region", name="Not reported by this cluster")
            if keeps:
                expect(notes).to_have_count(0)
            else:
                expect(notes).to_contain_text("no broker of this cluster records a rebalance history")
        expect(_heads(page)).to_have_count(1)
        _go_back_to(page, "c2 joined")
        expect(_marks(page, "c2")).to_have_count(4)
    for line in page.locator(".command code").all():
        check_command(line.text_content() or "")


def test_reasons_are_reported_in_chinese_too(stage: BrowserStage) -> None:
    _topic(stage)
    with run_members(stage.namesrv, "billing", "orders", "till-1"):
        page = stage.open("/groups/billing", locale="zh-CN")
        expect(page.locator(".rebalances")).to_contain_text("till-1 加入")
