"""`steelyard member`: who is in a group and what it wants, what one of them does, and what does not fit together."""

import threading
from collections.abc import Iterator

import pytest

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.model import Message, StoredMessage
from steelyard.serve.embedded import Cluster
from tests.cli.processes import create_topic
from tests.cli.runner import RunCommand
from tests.cli.test_group import have_all, member
from tests.waiting import LONGEST_S, until


def wanting(cluster: Cluster, group: str, name: str, topic: str, tags: str) -> Consumer:
    """Return a member that wants some messages of a topic."""
    consumer = Consumer(cluster.namesrv, group, name=name)

    @consumer.handles(topic, tags=tags)
    def drop(message: StoredMessage) -> None:
        del message

    return consumer


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[str]:
    """Return the name of a group of two members, c1 and c2, that share eight queues."""
    create_topic(cluster.namesrv, "shared")
    with member(cluster, "sharers", "c1", "shared"), member(cluster, "sharers", "c2", "shared"):
        until(lambda: have_all(cluster, "sharers", 2))
        yield "sharers"


def test_members_are_listed_in_every_format(run: RunCommand, pair: str) -> None:
    table = run("member", "ls", pair)
    assert table.err == ""
    assert table.table[0] == "member address client strategy queues lag since subscriptions".split()
    for row in table.table[1:]:
        assert row[0] in ("c1", "c2")
        assert (row[2], row[4], row[-1]) == ("PYTHON", "STICKY", "shared")
    for rows in (
        run("member", "ls", pair, "--output", "json").json,
        run("member", "ls", pair, "--json").lines,
        run("member", "ls", pair, "--output", "csv").csv,
    ):
        assert [row["name"] for row in rows] == ["c1", "c2"]
    first, second = run("member", "ls", pair, "--json").lines
    assert len({*first["queues"], *second["queues"]}) == 10, "eight, and one for retries on each broker"
    assert first["brokers"] == ["broker-0", "broker-1"]


def test_one_member_reports_its_state(run: RunCommand, pair: str) -> None:
    reported = run("member", "show", pair, "c1", "--json").json
    assert reported["wants"] == ["shared"]
    assert sum(each["topic"] == "shared" for each in reported["queues"]) == 4
    assert reported["settings"]["allocateMessageQueueStrategy"]
    assert "stacks" not in reported
    assert reported["running"] == []
    by_id = run("member", "show", pair, reported["id"], "--output", "csv")
    assert len(by_id.csv) == len(reported["queues"])
    table = run("member", "show", pair, "c1").table
    assert ["id", reported["id"]] in table
    assert "topic broker queue committed cached locked leaving pulled consumed".split() in table


def test_a_handler_that_hangs_is_shown_with_its_message_and_its_stack(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "stuck")
    consumer = Consumer(cluster.namesrv, "stuck-billing", name="c1", start_from="first")
    entered, opened = threading.Event(), threading.Event()

    @consumer.handles("stuck")
    def charge(_message: StoredMessage) -> None:
        entered.set()
        opened.wait()

    with Producer(cluster.namesrv) as producer, consumer:
        sent = producer.send(Message("stuck", b"order 1"))
        try:
            assert entered.wait(LONGEST_S)
            (shown,) = run("member", "show", "stuck-billing", "c1", "--json").json["running"]
            text = run("member", "show", "stuck-billing", "c1").out
        finally:
            opened.set()
    assert (shown["topic"], shown["offset"], shown["message_id"]) == ("stuck", sent.offset, sent.message_id)
    assert shown["running_ms"] >= 0
    assert shown["stack"].startswith(f'  File "{__file__}"')
    assert f"with message {sent.message_id} of {sent.queue}, offset {sent.offset}\n  File" in text
    assert "opened.wait()" in text


def test_stacks_are_shown_when_asked_for(run: RunCommand, pair: str) -> None:
    assert "MainThread" in run("member", "show", pair, "c2", "--stacks", "--json").json["stacks"]
    lines = run("member", "show", pair, "c2", "--stacks").out.splitlines()
    assert "MainThread" in lines


def test_who_is_not_there_is_not_found(run: RunCommand, pair: str) -> None:
    run("group", "create", "nobody-here")
    for words, why in (
        (["ls", "sharesr"], "Did you mean 'sharers'?"),
        (["show", "sharesr", "c1"], "Did you mean 'sharers'?"),
        (["show", pair, "c3"], "group sharers has no member 'c3'; online are: "),
        (["show", "nobody-here", "c3"], "has no member 'c3'; online are: none"),
    ):
        answer = run("member", *words)
        assert (answer.code, answer.out) == (ExitCode.NOT_FOUND, "")
        assert why in answer.err
    empty = run("member", "ls", "nobody-here")
    assert (empty.code, len(empty.table), empty.err) == (0, 1, "no member of group nobody-here is online\n")
    assert run("member", "ls", "nobody-here", "--output", "json").json == []


def test_members_that_have_other_subscriptions_are_reported(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "tagged")
    with wanting(cluster, "unequal", "u1", "tagged", "paid"), wanting(cluster, "unequal", "u2", "tagged", "refunded"):
        until(lambda: "look: " in run("member", "ls", "unequal").err)
        answer = run("member", "ls", "unequal")
        assert "members of group unequal have different subscriptions to tagged" in answer.err
        assert {row["name"]: row["wants"] for row in run("member", "ls", "unequal", "--json").lines} == {
            "u1": ["tagged: paid"],
            "u2": ["tagged: refunded"],
        }
