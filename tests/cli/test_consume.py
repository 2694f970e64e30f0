"""`steelyard consume` as people run it: without a trace, or as a member that comes, shares, and leaves cleanly."""

import json
import os
import pty
import re
import signal
import subprocess
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import ResponseCode
from tests import forkserver
from tests.cli.processes import TIMEOUT_S, command_process, create_topic, run_process
from tests.serve.refused_pulls import RefusedPulls
from tests.waiting import until

pytestmark = pytest.mark.process


def fill(cluster: Cluster, topic: str, bodies: list[str], *, tags: str | None = None) -> None:
    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message(topic, body.encode(), tags=tags) for body in bodies])


def printed(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    done = run_process(cluster.namesrv, "consume", *words, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def bodies(lines: list[str]) -> list[str]:
    return [json.loads(line)["body"] for line in lines]


def numbers(count: int, start: int = 0) -> list[str]:
    return [f"{number:03d}" for number in range(start, start + count)]


# -- without a group ---------------------------------------------------------------------------------------------------


def test_everything_is_read_and_no_trace_is_left(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "read")
    fill(cluster, "read", numbers(100))
    with Admin(cluster.namesrv) as admin:
        before = [group.name for group in admin.groups.list(system=True)], admin.topics.list(system=True)
        for _ in range(2):
            found = printed(cluster, "read", "--from", "first", "--exit-at-end")
            assert sorted(each["body"] for each in found) == numbers(100)
        assert ([group.name for group in admin.groups.list(system=True)], admin.topics.list(system=True)) == before


def test_a_message_says_all_of_itself(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "whole", 1)
    words = ("--body", "hello", "--tags", "paid", "--keys", "k1")
    assert run_process(cluster.namesrv, "send", "whole", *words).returncode == 0
    (message,) = printed(cluster, "whole", "--from", "first", "--exit-at-end")
    assert (message["topic"], message["queue_id"], message["offset"]) == ("whole", 0, 0)
    assert message["broker"] in cluster.brokers
    assert (message["body"], message["body_encoding"], message["tags"], message["keys"]) == (
        "hello",
        "utf-8",
        "paid",
        ["k1"],
    )
    done = run_process(cluster.namesrv, "consume", "whole", "--from", "first", "--exit-at-end")
    where, _, key, tag, body = done.stdout.decode().split()
    topic, _, place = where.partition("@")
    assert (topic, place.partition(":")[2], key, tag, body) == ("whole", "0:0", "k1", "paid", "hello")


def test_a_pattern_prints_what_is_wanted_byte_by_byte(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "patterned", 1)
    body = bytes(range(256))
    with Producer(cluster.namesrv) as producer:
        sent = producer.send(Message("patterned", body, "paid", "k1"))
    words = ("consume", "patterned", "--from", "first", "--exit-at-end", "--format")
    done = run_process(cluster.namesrv, *words, r"%t %b %q %o %k %g %S\0%s\n")
    front = f"patterned {sent.queue.broker} {sent.queue.queue_id} 0 k1 paid 256".encode()
    assert (done.returncode, done.stdout, done.stderr) == (0, front + b"\0" + body + b"\n", b"")
    by_a_member = run_process(cluster.namesrv, *words, "%s", "--group", "patterned")
    assert by_a_member.stdout == body


@pytest.mark.parametrize("how", [("--format", r"%k %s\n"), ("--json",), ()], ids=["pattern", "json", "line"])
def test_no_body_is_a_command_to_a_terminal(cluster: Cluster, how: tuple[str, ...]) -> None:
    topic = f"hostile-{len(how)}"
    create_topic(cluster.namesrv, topic, 1)
    fill(cluster, topic, ["\x1b]0;owned\x07\x1b[2J\x9b31m"])
    words = ["consume", topic, "--from", "first", "--exit-at-end", *how, "--namesrv", cluster.namesrv]
    ours, theirs = pty.openpty()
    with subprocess.Popen([*forkserver.python(), "-m", "steelyard", *words], stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b""
        # A terminal that nobody is at any more is an error on Linux.
        with suppress(OSError):
            while news := os.read(ours, 4096):
                shown += news
        assert process.wait(TIMEOUT_S) == 0
    os.close(ours)
    assert b"owned" in shown
    assert not set(shown) & {0x1B, 0x07, 0x9B}


def test_a_reader_who_left_is_noticed_without_a_message(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "quiet", 1)
    for group in ((), ("--group", "quiet")):
        command = [*forkserver.python(), "-m", "steelyard", "consume", "quiet", *group, "--namesrv", cluster.namesrv]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(TIMEOUT_S) == 0


def test_the_last_ones_of_each_queue_are_read(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "tail", 1)
    with Producer(cluster.namesrv) as producer:
        queues = [producer.send(Message("tail", b"%d" % number)).queue for number in range(20)]
    assert len(set(queues)) == 2
    found = printed(cluster, "tail", "--from", "-3", "--exit-at-end")
    assert sorted(int(each["body"]) for each in found) == list(range(14, 20))


def test_tags_and_conditions_choose(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "chosen")
    for tags in ("paid", "open"):
        fill(cluster, "chosen", [tags], tags=tags)
    for choice in (("--tags", "paid"), ("--sql", "TAGS = 'paid'")):
        found = printed(cluster, "chosen", "--from", "first", "--exit-at-end", *choice)
        assert [each["body"] for each in found] == ["paid"]


def test_several_topics_are_read_and_no_more_than_wanted(cluster: Cluster) -> None:
    for topic in ("left", "right"):
        create_topic(cluster.namesrv, topic)
        fill(cluster, topic, [topic] * 10)
    found = printed(cluster, "left", "right", "--from", "first", "--exit-at-end")
    assert sorted(each["body"] for each in found) == ["left"] * 10 + ["right"] * 10
    assert len(printed(cluster, "left", "right", "--from", "first", "--count", "7")) == 7


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_follows_what_comes_until_it_is_stopped(cluster: Cluster, how: signal.Signals) -> None:
    topic = f"followed-{how.name}"
    create_topic(cluster.namesrv, topic)
    fill(cluster, topic, numbers(5))
    with command_process(cluster.namesrv, "consume", topic, "--from", "first", "--json") as reader:
        reader.wait_for(lambda: len(reader.out) == 5)
        fill(cluster, topic, numbers(5, 5))
        reader.wait_for(lambda: len(reader.out) == 10)
        assert reader.stop(how) == ExitCode.DONE
    assert sorted(bodies(reader.out)) == numbers(10)
    assert reader.err == []


@pytest.mark.parametrize("group", [(), ("--group", "impatient")], ids=["alone", "member"])
def test_a_reader_who_has_seen_enough_is_no_failure(cluster: Cluster, group: tuple[str, ...]) -> None:
    topic = f"enough-{len(group)}"
    create_topic(cluster.namesrv, topic)
    fill(cluster, topic, numbers(50))
    words = [*forkserver.python(), "-m", "steelyard", "consume", topic, "--from", "first", "--json", *group]
    with subprocess.Popen(
        [*words, "--namesrv", cluster.namesrv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        fill(cluster, topic, numbers(50, 50))
        assert process.wait(TIMEOUT_S) == ExitCode.DONE
        assert process.stderr.read() == b""


def test_a_topic_that_is_not_there_is_exit_code_three(cluster: Cluster) -> None:
    for words in (("--exit-at-end",), ("--group", "nowhere", "--exit-at-end")):
        done = run_process(cluster.namesrv, "consume", "no-such-topic", *words)
        assert (done.returncode, done.stdout) == (ExitCode.NOT_FOUND, b"")
        assert b"no-such-topic" in done.stderr


_ALONE_OR_NOT = pytest.mark.parametrize("group", [(), ("--group", "stopping")], ids=["alone", "member"])


@_ALONE_OR_NOT
def test_a_broker_that_refuses_every_pull_is_the_end_and_no_success(
    cluster: Cluster, group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"refused-{len(group)}"
    create_topic(cluster.namesrv, topic, 1)
    fill(cluster, topic, numbers(10))
    RefusedPulls(monkeypatch, topic, ResponseCode.NO_PERMISSION)
    done = run_process(cluster.namesrv, "consume", topic, "--from", "first", "--exit-at-end", *group)
    assert (done.returncode, done.stdout) == (ExitCode.REFUSED, b"")
    assert re.search(rb"broker-\d answered 16: permission denied \(no pull of it is good\); check the", done.stderr)


@_ALONE_OR_NOT
def test_a_broker_that_judges_no_conditions_is_the_end_and_no_success(group: tuple[str, ...]) -> None:
    with Cluster(broker_options=BrokerOptions(property_filter=False)) as cluster:
        create_topic(cluster.namesrv, "unjudged", 1)
        fill(cluster, "unjudged", numbers(10))
        done = run_process(
            cluster.namesrv, *("consume", "unjudged", "--from", "first", "--exit-at-end", "--sql", "a = 1"), *group
        )
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, b"")
    assert b"The broker does not support consumer to filter message by SQL92" in done.stderr


@_ALONE_OR_NOT
def test_an_amount_that_is_nearly_a_number_does_not_block_a_condition(cluster: Cluster, group: tuple[str, ...]) -> None:
    topic = f"nearly-{len(group)}"
    create_topic(cluster.namesrv, topic, 1)
    with Producer(cluster.namesrv) as producer:
        for amount in ("11", "0E", "10.5", "12"):
            producer.send(Message(topic, amount.encode(), properties={"amount": amount}))
    found = printed(cluster, topic, "--from", "first", "--exit-at-end", "--sql", "amount > 10.5", *group)
    assert sorted(each["body"] for each in found) == ["11", "12"]


# -- as a member -------------------------------------------------------------------------------------------------------


def test_members_share_and_hand_over_and_each_message_is_handled_once(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "shared")
    words = ("consume", "shared", "--group", "sharing", "--from", "first", "--json", "--events", "json")
    with command_process(cluster.namesrv, *words, "--name", "c1") as first:
        first.wait_for_queues(8)
        fill(cluster, "shared", numbers(100))
        first.wait_for(lambda: len(first.out) == 100)
        with command_process(cluster.namesrv, *words, "--name", "c2") as second:
            second.wait_for_queues(4)
            first.wait_for_queues(4)
            assert sorted(first.owned() + second.owned()) == [
                ["shared", broker, number] for broker in ("broker-0", "broker-1") for number in range(4)
            ]
            fill(cluster, "shared", numbers(100, 100))
            until(lambda: len(first.out) + len(second.out) == 200)
            assert second.stop() == ExitCode.DONE
            assert second.owned() == []
            first.wait_for_queues(8)
        fill(cluster, "shared", numbers(100, 200))
        first.wait_for(lambda: len(first.out) + len(second.out) == 300)
        assert first.stop(signal.SIGINT) == ExitCode.DONE
    assert sorted(bodies(first.out + second.out)) == numbers(300)


def test_events_have_exactly_these_keys_and_are_reported_only_on_change(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "told")
    with command_process(
        cluster.namesrv, "consume", "told", "--group", "telling", "--events", "json", "--name", "c1"
    ) as member:
        member.wait_for_queues(8)
        with Admin(cluster.namesrv) as admin:
            (registered,) = admin.groups.describe("telling").members
        assert member.stop() == ExitCode.DONE
    events = [json.loads(line) for line in member.err]
    assert {tuple(event) for event in events} == {("at_ms", "id", "queues", "why")}
    assert {event["id"] for event in events} == {registered.id}
    times = [event["at_ms"] for event in events]
    assert times == sorted(times)
    owned = [event["queues"] for event in events]
    assert all(before != after for before, after in pairwise(owned))
    assert all(queue[0] == "told" for queues in owned for queue in queues)
    assert (owned[-1], events[-1]["why"]) == ([], "it leaves the group")


def test_so_many_are_printed_and_the_rest_stays_for_others(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "counted")
    fill(cluster, "counted", numbers(60))
    words = ("counted", "--group", "counting", "--from", "first")
    first = printed(cluster, *words, "--count", "7")
    assert len(first) == 7
    rest = printed(cluster, *words, "--exit-at-end")
    assert sorted(each["body"] for each in first + rest) == numbers(60)
    assert {each["reconsume_times"] for each in rest} == {0}


def test_what_was_printed_is_done_to_the_message_however_many_come_at_once(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "exact")
    fill(cluster, "exact", numbers(900))
    assert len(printed(cluster, "exact", "--group", "exactly", "--from", "first", "--count", "500")) == 500
    with Admin(cluster.namesrv) as admin:
        assert sum(each.lag for each in admin.offsets.list("exactly", "exact")) == 400


def test_a_killed_members_queues_go_to_the_others(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "killed")
    words = ("consume", "killed", "--group", "dying", "--from", "first", "--json", "--events", "json")
    with command_process(cluster.namesrv, *words) as first, command_process(cluster.namesrv, *words) as second:
        first.wait_for_queues(4)
        second.wait_for_queues(4)
        first.process.kill()
        second.wait_for_queues(8)
        fill(cluster, "killed", numbers(40))
        second.wait_for(lambda: set(bodies(second.out)) == set(numbers(40)))
        assert second.stop() == ExitCode.DONE


def test_in_order_one_queue_at_a_time(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "ordered", 1)
    with Producer(cluster.namesrv) as producer:
        for body in numbers(30):
            producer.send(Message("ordered", body.encode()), key="k")
    found = printed(cluster, "ordered", "--group", "ordering", "--from", "first", "--orderly", "--count", "30")
    assert [each["body"] for each in found] == numbers(30)


def test_work_is_waited_for_when_it_is_stopped(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "worked", 1)
    fill(cluster, "worked", numbers(2))
    words = ("worked", "--group", "working", "--from", "first", "--json", "--work-ms", "300")
    with command_process(cluster.namesrv, "consume", *words) as member:
        member.wait_for(lambda: bool(member.out))
        fill(cluster, "worked", numbers(3, 2))
        assert member.stop() == ExitCode.DONE
    rest = printed(cluster, "worked", "--group", "working", "--exit-at-end")
    assert sorted(bodies(member.out) + [each["body"] for each in rest]) == numbers(5)
