"""The page never opens more of a body than it shows or looks at, and shows what nobody can read."""

import zlib
from collections.abc import Iterator

import pytest

from steelyard import Consumer
from steelyard.client.pull_consumer.queue_browser import PREVIEW_BYTES
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import make_topic, put
from tests.dashboard.http_client import get
from tests.opened_bodies import recorded_sizes
from tests.waiting import LONGEST_S, until

_ZLIB = 0x301
_LARGE = zlib.compress(b"the beginning" + bytes(16 << 20)[20:])


@pytest.fixture
def opened_sizes() -> Iterator[list[int]]:
    with recorded_sizes() as sizes:
        yield sizes


def test_a_search_looks_at_the_beginning_of_large_bodies(
    cluster: Cluster, dashboard: Dashboard, opened_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.dashboard.api.messages._SHORT_SEARCH_S", LONGEST_S)  # all rows, however slow
    make_topic(cluster, "large", queues=1)
    put(cluster, "large", 0, [_LARGE] * 40, sys_flag=_ZLIB, KEYS="k")
    rows = get(dashboard, "/api/messages?topic=large&by=newest&count=40")["rows"]
    assert [row["preview"][:13] for row in rows] == ["the beginning"] * 40
    assert all(row["is_truncated"] for row in rows)
    assert len(get(dashboard, "/api/messages?topic=large&by=newest&count=40&text=beginning")["rows"]) == 40
    assert len(get(dashboard, "/api/messages?topic=large&by=key&key=k")["rows"]) == 40
    assert 0 < max(opened_sizes) <= PREVIEW_BYTES + 1


def test_one_large_message_is_shown_by_its_beginning(
    cluster: Cluster, dashboard: Dashboard, opened_sizes: list[int]
) -> None:
    place = "/api/messages/one/broker-0/0/0"
    make_topic(cluster, "one", queues=1)
    put(cluster, "one", 0, [_LARGE], sys_flag=_ZLIB)
    body = get(dashboard, place)["body"]
    assert (body["text"][:13], body["size"], body["is_truncated"]) == ("the beginning", None, True)
    get(dashboard, f"{place}/readers")
    get(dashboard, f"{place}/trace")
    assert 0 < max(opened_sizes) <= PREVIEW_BYTES + 1


def test_what_nobody_can_read_is_listed_and_shown_with_the_reason(cluster: Cluster, dashboard: Dashboard) -> None:
    make_topic(cluster, "bad", queues=1)
    put(cluster, "bad", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    put(cluster, "bad", 0, [b"good"])
    first, second = get(dashboard, "/api/messages?topic=bad&by=newest")["rows"]
    assert (first["preview"], first["is_truncated"], second["preview"]) == ("no zlib stream", True, "good")
    shown = get(dashboard, "/api/messages/bad/broker-0/0/0")
    assert shown["body"]["text"] == "no zlib stream"
    assert "the ZLIB stream cannot be opened" in shown["delivery"]["unreadable"]
    assert get(dashboard, "/api/dead-letters")["groups"] == []


def test_a_queue_that_stands_still_is_reported_on_the_page_of_its_group(cluster: Cluster, dashboard: Dashboard) -> None:
    make_topic(cluster, "still", queues=1)
    put(cluster, "still", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    consumer = Consumer(cluster.namesrv, group="reader", start_from="first", on_unreadable="stop")
    consumer.handles("still")(print)

    def reported() -> bool:
        return "stands still at offset 0, which cannot be read" in str(get(dashboard, "/api/groups/reader"))

    with consumer:
        until(lambda: "it stands still" in str(consumer.explain()))
        until(reported, "the page tells it")


def test_a_dead_letter_says_why_it_could_not_be_read(cluster: Cluster, dashboard: Dashboard) -> None:
    make_topic(cluster, "dead", queues=1)
    put(cluster, "dead", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    consumer = Consumer(cluster.namesrv, group="reader", start_from="first")
    consumer.handles("dead")(print)
    with consumer:
        until(lambda: get(dashboard, "/api/dead-letters")["groups"], "a dead letter")
    (row,) = get(dashboard, "/api/groups/reader/dead-letters")["rows"]
    letter = get(dashboard, f"/api/groups/reader/dead-letters/{row['id']}")
    assert letter["notes"] == []
    for error in (row["error"], letter["row"]["error"]):
        assert "body: the ZLIB stream cannot be opened" in error
