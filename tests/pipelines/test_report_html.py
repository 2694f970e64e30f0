"""The page: whole, alone, safe against what messages hold, and readable with many queues."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from steelyard.model import Queue
from steelyard.pipelines.report.contents import KeyInQueue, KeyLoad, QueueLoad, ReportContents, TopicTraffic
from steelyard.pipelines.report.fact_table import FACT_SCHEMA, fact_table
from steelyard.pipelines.report.html_report import render_page
from steelyard.pipelines.report.ownership import MAX_TIMESTAMP_MS, OwnershipEvent
from steelyard.pipelines.report.rebalance_history import build_history
from tests.pipelines.report_contents import START_MS, busy_contents, queues_of, traffic_of

_ALONE = frozenset({"meta"})


class _Reader(HTMLParser):
    """Reads a page, and holds it to its tags: each that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in _ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag that is closed at once."""
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        """Close a tag."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take note of what is written."""
        self.words.append(data)


def read(text: str) -> _Reader:
    """Read a page to its end."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize(("queues", "members"), [(1, 1), (16, 3), (64, 5), (300, 12)])
def test_a_page_is_whole_and_needs_nothing_from_elsewhere(queues: int, members: int) -> None:
    text = render_page(busy_contents(queues, max(members, 2)))
    found = read(text)
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & found.tags
    assert not [name for name, _ in found.attributes if name in ("src", "href", "xlink:href") or name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text


def test_a_page_about_messages_alone_has_no_sections_about_a_group() -> None:
    found = read(render_page(ReportContents(topic="orders", at_ms=START_MS, traffic=traffic_of(8))))
    words = " ".join(found.words)
    assert "Queues" in words
    assert "Members" not in words
    assert "Hand-overs" not in words


def test_an_empty_topic_has_a_page() -> None:
    read(render_page(ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=()))))
    read(
        render_page(ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=(QueueLoad(queues_of(1)[0]),))))
    )


def test_every_sum_stands_in_a_table() -> None:
    study = busy_contents(64, 5)
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", render_page(study))
    for load in study.traffic.queues:
        assert f"{load.messages:,}" in cells
        assert load.name in cells
    for key in study.traffic.keys:
        assert key.key in cells
    for member in study.members():
        assert member.id in cells


def test_the_lag_over_time_is_shown_if_it_was_polled() -> None:
    study = busy_contents(8, 3)
    _, _, section = render_page(study).partition("<h2>Lag while it was polled</h2>")
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section.partition("</table>")[0])
    assert cells[2::2] == [f"{each.messages:,}" for each in study.lag_samples]
    assert section.partition("</table>")[0].count("<meter ") == len(study.lag_samples)
    assert "Lag while it was polled" not in render_page(replace(study, lag_samples=study.lag_samples[:1]))


def test_of_very_many_queues_the_first_are_shown() -> None:
    text = render_page(busy_contents(6_000, 5))
    assert "Queues (the first 5,000 of 6,000; the Parquet table has all)" in text
    assert text.partition("<h2>Keys")[0].count("<td>broker-") == 5_000


def test_each_number_has_a_bar_beside_it_and_the_largest_is_full() -> None:
    study = busy_contents(16, 3)
    _, _, section = render_page(study).partition("<h2>Queues</h2>")
    bars = re.findall(r"<meter max='(\d+)' value='(\d+)'", section.partition("</table>")[0])
    assert [int(value) for _, value in bars] == [each.messages for each in study.traffic.queues]
    assert {int(most) for most, _ in bars} == {max(each.messages for each in study.traffic.queues)}


def test_the_page_shows_moves_gaps_and_overlaps() -> None:
    first, second = queues_of(2)
    events = [
        OwnershipEvent(START_MS, "c1", (first, second), "c1 came"),
        OwnershipEvent(START_MS + 60_000, "c1", (second,), "c2 came"),
        OwnershipEvent(START_MS + 60_250, "c2", (first, second), "c1 is busy"),
        OwnershipEvent(START_MS + 60_650, "c1", ()),
    ]
    study = ReportContents(
        topic="orders", at_ms=START_MS, traffic=traffic_of(2), history=build_history(events, "orders")
    )
    text = render_page(study)
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    assert ["2026-11-01T08:01:00.250Z", "broker-b:1", "c1", "c2", "400 ms"] in rows
    assert ["2026-11-01T08:00:00.000Z", "c1 joined", "1", "0", "0"] in rows
    assert ["2026-11-01T08:01:00.000Z", "c2 joined", "2", "2", "1"] in rows
    assert ["2026-11-01T08:01:00.250Z", "broker-a:0", "c1", "c2", "250 ms", "c1 is busy"] in [row[:6] for row in rows]
    assert "Rebalances: 2 queues moved, and the minimum of even plans is 1" in text
    assert "Hand-overs: median gap 125 ms, maximum 250 ms" in text


_NASTY = st.one_of(
    st.text(min_size=1, max_size=40),
    st.sampled_from(["<script>alert(1)</script>", "'\"><b>", "&lt;", "</svg><script>", "\u202e\x00\x1b[2J", "$x ${y}"]),
)


@given(key=_NASTY, broker=_NASTY, member=_NASTY, why=_NASTY, topic=_NASTY)
def test_whatever_names_hold_the_page_is_whole(key: str, broker: str, member: str, why: str, topic: str) -> None:
    queue, other = Queue(topic, broker, 0), Queue(topic, broker, 1)
    traffic = TopicTraffic(
        queues=(QueueLoad(queue, 5_000, 9, KeyInQueue(key, 4_000)), QueueLoad(other, 3, 1)),
        keys=(KeyLoad(key, 4_000, 8, 1, queue),),
        keyed=5_003,
        distinct_keys=2,
    )
    events = [OwnershipEvent(0, member, (queue,), why), OwnershipEvent(9_000, f"{member}2", (queue,), why)]
    study = ReportContents(
        topic=topic, at_ms=0, group=member, traffic=traffic, history=build_history(events, topic), notes=(why,)
    )
    found = read(render_page(study))
    assert not {"script", "b>"} & found.tags
    assert fact_table(study).num_rows > 0


def test_the_last_timestamp_that_can_be_read_can_be_stored() -> None:
    queue = queues_of(1)[0]
    told = build_history(
        [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(MAX_TIMESTAMP_MS, "c2", (queue,))], "orders"
    )
    study = replace(busy_contents(4, 2), history=told, at_ms=MAX_TIMESTAMP_MS)
    read(render_page(study))
    assert fact_table(study).num_rows > 0


def test_the_table_is_tidy_and_has_what_the_page_has(tmp_path: Path) -> None:
    study = busy_contents(16, 3)
    path = tmp_path / "report.parquet"
    parquet.write_table(fact_table(study), path)
    table = parquet.read_table(path)
    assert table.schema.names == FACT_SCHEMA.names
    rows = table.to_pylist()

    def of(subject: str, measure: str) -> dict[str, float]:
        return {row["name"]: row["value"] for row in rows if (row["subject"], row["measure"]) == (subject, measure)}

    assert of("queue", "messages") == {each.name: each.messages for each in study.traffic.queues}
    assert of("key", "messages") == {each.key: each.messages for each in study.traffic.keys}
    assert of("member", "queues") == {each.id: each.queues for each in study.members()}
    assert sum(row["value"] for row in rows if row["subject"] == "step" and row["measure"] == "messages") == (
        study.traffic.messages
    )
    held = [(row["name"], row["text"], row["value"]) for row in rows if row["subject"] == "holding"]
    assert held == [
        (f"{each.queue.broker}:{each.queue.queue_id}", each.member, each.ended_ms - each.acquired_ms)
        for each in study.history.holdings
    ]
    gaps = [row for row in rows if (row["subject"], row["measure"]) == ("hand-over", "gap")]
    assert [row["value"] for row in gaps] == [over.gap_ms for over in study.history.handovers]
    changes = [row for row in rows if (row["subject"], row["measure"]) == ("change", "moves")]
    assert [(row["value"], row["text"]) for row in changes] == [
        (len(change.moves), change.cause) for change in study.history.changes
    ]
    assert {row["made_at"] for row in rows} == {rows[0]["made_at"]}
    assert all(row["value"] is not None or row["text"] is not None for row in rows)
