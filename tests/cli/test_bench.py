"""`steelyard bench` as people run it: figures, nothing left behind, and Ctrl-C ends it with what there is."""

import json
import signal

import pytest

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.serve.embedded import Cluster
from tests.cli.processes import command_process, create_topic
from tests.cli.runner import RunCommand, run_command_at

FIGURES = "failed bytes seconds per_second mb_per_second min_ms avg_ms p50_ms p99_ms max_ms".split()


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return run_command_at(cluster.namesrv, capsys)


def own_topics(cluster: Cluster) -> list[str]:
    with Admin(cluster.namesrv) as admin:
        return [topic.name for topic in admin.topics.list() if topic.name.startswith("steelyard-bench-")]


def test_sending_gives_figures_and_leaves_nothing_behind(cluster: Cluster, run: RunCommand) -> None:
    done = run("bench", "send", "--count", "300", "--size", "64", "--output", "json")
    assert done.code == 0
    assert list(done.json) == ["sent", *FIGURES]
    assert (done.json["sent"], done.json["failed"], done.json["bytes"]) == (300, 0, 300 * 64)
    assert 0 < done.json["min_ms"] <= done.json["p50_ms"] <= done.json["p99_ms"] <= done.json["max_ms"]
    assert "was created for this, and is deleted" in done.err
    assert own_topics(cluster) == []


def test_batches_and_a_duration(run: RunCommand) -> None:
    done = run("bench", "send", "--duration", "300ms", "--batch", "16", "--in-flight", "2", "--json")
    assert done.code == 0
    assert done.json["sent"] > 0
    assert done.json["sent"] % 16 == 0


def test_a_rate_is_kept(run: RunCommand) -> None:
    done = run("bench", "send", "--duration", "1s", "--rate", "50", "--json")
    assert (done.code, done.json["sent"]) == (0, 50)


def test_a_topic_that_is_named_is_used_and_kept(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "mine", 1)
    assert run("bench", "send", "mine", "--count", "20", "--in-flight", "1").code == 0
    with Admin(cluster.namesrv) as admin:
        assert sum(each.messages for each in admin.topics.describe("mine").queues) == 20
    done = run("bench", "receive", "mine", "--output", "csv")
    (row,) = done.csv
    assert (done.code, row["received"], row["bytes"], row["p99_ms"]) == (0, "20", "2000", "")
    assert run("bench", "receive", "mine", "--count", "5", "--json").json["received"] == 5
    assert run("bench", "receive", "mine", "--from", "last", "--duration", "300ms", "--json").json["received"] == 0


def test_a_topic_that_is_not_there_is_not_made(cluster: Cluster, run: RunCommand) -> None:
    for direction in ("send", "receive"):
        done = run("bench", direction, "nobodys", "--count", "3")
        assert (done.code, done.out) == (ExitCode.NOT_FOUND, "")
    with Admin(cluster.namesrv) as admin:
        assert "nobodys" not in {topic.name for topic in admin.topics.list()}


def test_receiving_fills_a_topic_of_its_own_and_reads_it(cluster: Cluster, run: RunCommand) -> None:
    with Admin(cluster.namesrv) as admin:
        before = {group.name for group in admin.groups.list(system=True)}
        done = run("bench", "receive", "--count", "1000", "--json")
        assert (done.code, done.json["received"], done.json["p99_ms"]) == (0, 1000, None)
        assert {group.name for group in admin.groups.list(system=True)} == before
    assert own_topics(cluster) == []


def test_receiving_while_sending_shows_how_old_messages_are(run: RunCommand) -> None:
    done = run("bench", "receive", "--rate", "100", "--count", "50", "--json")
    assert (done.code, done.json["received"]) == (0, 50)
    assert done.json["max_ms"] > 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("receive", "orders", "--rate", "5"), "--rate is for a topic of its own"),
        (("receive", "orders", "--from", "noon"), "give first or last"),
        (("send", "--batch", "2", "--rate", "5"), "--rate is for single messages"),
        (("send", "--duration", "long"), "'long' is no span of time"),
        (("send", "--size", "5000000"), "5000000"),
    ],
)
def test_what_cannot_be_measured_is_reported_before(run: RunCommand, words: tuple[str, ...], why: str) -> None:
    done = run("bench", *words)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert why in done.err


def test_what_cannot_be_sent_is_reported_once_and_the_exit_code_is_one(cluster: Cluster, run: RunCommand) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("closed", 1, write=False)
    done = run("bench", "send", "closed", "--count", "4", "--json")
    assert (done.code, done.json["sent"], done.json["failed"]) == (ExitCode.FAILED, 0, 4)
    assert done.err.count("\n") == 1


@pytest.mark.process
def test_ctrl_c_ends_it_with_the_figures_so_far(cluster: Cluster) -> None:
    with command_process(cluster.namesrv, "bench", "send", "--duration", "10m", "--json") as running:
        with Admin(cluster.namesrv) as admin:
            while not any(
                sum(each.messages for each in admin.topics.describe(topic).queues) for topic in own_topics(cluster)
            ):
                assert running.process.poll() is None
        assert running.stop(signal.SIGINT) == 0
    (line,) = running.out
    assert json.loads(line)["sent"] > 0
    assert own_topics(cluster) == []
