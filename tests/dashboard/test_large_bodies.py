"""The page never opens more of a body than it shows or looks at, and shows what nobody can read."""

import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from tests.client.consumer_scene import make_topic, put
from tests.dashboard.asking import get
from tests.waiting import until

from steelyard import Consumer
from steelyard.client.pulling.peeking import LOOKED_AT_BYTES
from steelyard.dashboard.page import Page
from steelyard.serve.embedded import Cluster
from steelyard.wire import compression

_ZLIB = 0x301
_LARGE = zlib.compress(b"the beginning" + bytes(16 << 20)[20:])


@pytest.fixture
def opened_sizes() -> Iterator[list[int]]:
    """Note how large each body became that was opened in this process, block by block."""
    sizes: list[int] = []
    add = compression._Opened.add

    def noted(opened: compression._Opened, block: bytes) -> None:
        sizes.append(opened._size + len(block))
        add(opened, block)

    with patch.object(compression._Opened, "add", noted):
        yield sizes


def test_a_search_looks_at_the_beginning_of_large_bodies(cluster: Cluster, page: Page, opened_sizes: list[int]) -> None:
    make_topic(cluster, "large", queues=1)
    put(cluster, "large", 0, [_LARGE] * 40, sys_flag=_ZLIB, KEYS="k")
    rows = get(page, "/api/messages?topic=large&by=newest&count=40")["rows"]
    assert [row["start"][:13] for row in rows] == ["the beginning"] * 40
    assert all(row["is_cut"] for row in rows)
    assert len(get(page, "/api/messages?topic=large&by=newest&count=40&text=beginning")["rows"]) == 40
    assert len(get(page, "/api/messages?topic=large&by=key&key=k")["rows"]) == 40
    assert 0 < max(opened_sizes) <= LOOKED_AT_BYTES + 1


def test_what_nobody_can_read_is_listed_and_shown_with_the_reason(cluster: Cluster, page: Page) -> None:
    make_topic(cluster, "bad", queues=1)
    put(cluster, "bad", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    put(cluster, "bad", 0, [b"good"])
    first, second = get(page, "/api/messages?topic=bad&by=newest")["rows"]
    assert (first["start"], first["is_cut"], second["start"]) == ("no zlib stream", True, "good")
    shown = get(page, "/api/messages/bad/broker-0/0/0")
    assert shown["body"]["text"] == "no zlib stream"
    assert "the ZLIB stream cannot be opened" in shown["story"]["unreadable"]
    assert get(page, "/api/dead-letters")["groups"] == []


def test_a_queue_that_stands_still_is_told_on_the_page_of_its_group(cluster: Cluster, page: Page) -> None:
    make_topic(cluster, "still", queues=1)
    put(cluster, "still", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    consumer = Consumer(cluster.namesrv, group="reader", start_from="first", on_unreadable="stop")
    consumer.handles("still")(print)

    def told() -> bool:
        return "stands still at offset 0, which cannot be read" in str(get(page, "/api/groups/reader"))

    with consumer:
        until(lambda: "it stands still" in str(consumer.explain()))
        until(told, "the page tells it")


def test_a_dead_letter_says_why_it_could_not_be_read(cluster: Cluster, page: Page) -> None:
    make_topic(cluster, "dead", queues=1)
    put(cluster, "dead", 0, [b"no zlib stream"], sys_flag=_ZLIB)
    consumer = Consumer(cluster.namesrv, group="reader", start_from="first")
    consumer.handles("dead")(print)
    with consumer:
        until(lambda: get(page, "/api/dead-letters")["groups"], "a dead letter")
    (row,) = get(page, "/api/groups/reader/dead-letters")["rows"]
    notes = get(page, f"/api/groups/reader/dead-letters/{row['id']}")["notes"]
    assert "no handler saw it, since its body could not be read: body: the ZLIB stream cannot be opened" in notes[0]
