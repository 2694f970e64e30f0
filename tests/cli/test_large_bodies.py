"""Commands that list messages decompress no more than they print, and never several bodies at a time."""

import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from steelyard import Admin
from steelyard.client.admin import messages as admin_messages
from steelyard.errors import ConfigurationError
from steelyard.model.reserved_names import DLQ_PREFIX
from steelyard.serve.embedded import Cluster
from tests.cli.runner import RunCommand, run_command_at
from tests.client.consumer_scene import make_topic, put
from tests.opened_bodies import recorded_sizes

_ZLIB = 0x301
_LARGE_BYTES = 1 << 20
_LARGE = zlib.compress(b"the beginning".ljust(_LARGE_BYTES, b"."))
_MOST_SHOWN_BYTES = 64 << 10


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return run_command_at(cluster.namesrv, capsys)


@pytest.fixture
def opened_sizes() -> Iterator[list[int]]:
    with recorded_sizes() as sizes:
        yield sizes


def test_lists_for_people_decompress_only_the_beginning(
    cluster: Cluster, run: RunCommand, opened_sizes: list[int]
) -> None:
    for topic in ("large", f"{DLQ_PREFIX}readers"):
        make_topic(cluster, topic, queues=1)
        put(cluster, topic, 0, [_LARGE] * 5, sys_flag=_ZLIB, KEYS="k")
    for words in (("message", "ls", "large"), ("message", "find", "large", "k"), ("dead-letters", "ls", "readers")):
        opened_sizes.clear()
        shown = run(*words)
        assert (shown.code, shown.out.count("the beg")) == (0, 5), words
        assert 0 < max(opened_sizes) <= _MOST_SHOWN_BYTES + 1, words


def test_programs_get_whole_bodies_row_by_row(cluster: Cluster, run: RunCommand) -> None:
    make_topic(cluster, "whole", queues=1)
    put(cluster, "whole", 0, [_LARGE] * 3, sys_flag=_ZLIB)
    with patch.object(admin_messages, "_MAX_DECOMPRESSED_BYTES", _LARGE_BYTES):
        for rows in (
            run("message", "ls", "whole", "--json").lines,
            run("message", "ls", "whole", "--output", "json").json,
        ):
            assert [len(row["body"]) for row in rows] == [_LARGE_BYTES] * 3
    assert run("message", "ls", "whole", "--from", "99", "--output", "json").json == []


def test_dead_letters_are_exported_with_whole_bodies(cluster: Cluster, run: RunCommand) -> None:
    topic = f"{DLQ_PREFIX}exporters"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [_LARGE], sys_flag=_ZLIB)
    (row,) = run("dead-letters", "export", "exporters").lines
    assert (len(row["body"]), row["body_encoding"]) == (_LARGE_BYTES, "utf-8")


def test_an_administrator_gets_no_list_of_bodies_beyond_the_limit(cluster: Cluster, opened_sizes: list[int]) -> None:
    make_topic(cluster, "bounded", queues=1)
    put(cluster, "bounded", 0, [_LARGE] * 5, sys_flag=_ZLIB, KEYS="k")
    with (
        Admin(cluster.namesrv) as admin,
        patch.object(admin_messages, "_MAX_DECOMPRESSED_BYTES", 2 * _LARGE_BYTES),
    ):
        assert len(admin.messages.list("bounded", most=2)) == 2
        opened_sizes.clear()
        with pytest.raises(ConfigurationError, match="ask for fewer"):
            admin.messages.list("bounded")
        with pytest.raises(ConfigurationError, match="ask for fewer"):
            admin.messages.find_by_key("bounded", "k")
        assert sum(size == _LARGE_BYTES for size in opened_sizes) == 6, "three in each, and not five"
        assert len(admin.messages.list("bounded", opened=False)) == 5
