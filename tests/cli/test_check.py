"""`steelyard check` against a real cluster: the line, the exit code, and watching."""

import json
import re
import socket
import sys
from collections.abc import Iterator

import pytest

from steelyard.cli.check_rules import CheckResult, CheckStatus
from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.admin.admin_session import AdminSession
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from tests.cli.processes import command_process, create_topic


@pytest.fixture
def waiting(cluster: Cluster) -> Iterator[str]:
    """Return the name of a group for which three messages of a topic of that name wait."""
    name = "checked"
    create_topic(cluster.namesrv, name)
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.groups.create(name)
        admin.offsets.reset(name, name, "last")
        for number in range(3):
            producer.send(Message(name, str(number).encode()))
        yield name
        admin.groups.delete(name)
        admin.topics.delete(name)


def checked(cluster: Cluster, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a check; return its exit code and what it printed."""
    code = main(["check", *words, "--namesrv", cluster.namesrv])
    reported = capsys.readouterr()
    assert reported.err == ""
    return code, reported.out


def test_a_cluster_that_is_well_is_one_line_and_exit_code_zero(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(cluster, capsys, "cluster")
    assert code == CheckStatus.OK
    assert re.fullmatch(r"OK cluster: 2 brokers of 2 answer, 1 name server, release \S+ \| brokers=2 .*\n", out)


def test_limits_decide_how_bad_it_is(cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]) -> None:
    offline = ["group", waiting, "--members", "0"]
    assert checked(cluster, capsys, *offline)[0] == CheckStatus.OK
    code, out = checked(cluster, capsys, *offline, "--lag-warn", "2", "--lag-crit", "100")
    assert (code, "WARNING group checked: a lag of 3 messages, more than 2 | lag=3;2;100" in out) == (
        CheckStatus.WARNING,
        True,
    )
    assert checked(cluster, capsys, *offline, "--lag-crit", "2")[0] == CheckStatus.CRITICAL
    code, out = checked(cluster, capsys, *offline, "--age-warn", "0.001ms")
    assert (code, "the oldest message has waited for" in out) == (CheckStatus.WARNING, True)
    code, out = checked(cluster, capsys, "group", waiting, "--members", "1")
    assert (code, "CRITICAL group checked: no member is online" in out) == (CheckStatus.CRITICAL, True)


def test_a_group_without_members_has_one_verdict_alone_and_among_all(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(cluster, capsys, "group", waiting)
    line = "WARNING group checked: group checked has no member online and a lag of 3 messages | "
    assert (code, out.startswith(line)) == (CheckStatus.WARNING, True), out
    code, out = checked(cluster, capsys, "all")
    assert (code, line in out) == (CheckStatus.WARNING, True), out
    assert checked(cluster, capsys, "all", "--members", "0")[0] == CheckStatus.OK


def test_dead_letters_have_limits_of_their_own(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["group", waiting, "--members", "0", "--dead-warn", "0", "--dead-crit", "100"]
    assert checked(cluster, capsys, *words)[1].endswith("dead_letters=0;0;100\n")
    dead = f"%DLQ%{waiting}"
    create_topic(cluster.namesrv, dead, 1)
    with Producer(cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        producer.send(Message(dead, b"no"))
        code, out = checked(cluster, capsys, *words)
        admin.topics.delete(dead)
    assert (code, "it has 1 dead letter, more than 0 | " in out) == (CheckStatus.WARNING, True)


def test_a_message_goes_to_each_broker_and_comes_back(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["send"], ["send", waiting]):
        code, out = checked(cluster, capsys, *words, "--warn", "60s", "--crit", "60s")
        assert (code, f"OK {' '.join(words)}: 2 round trips" in out) == (CheckStatus.OK, True), out
    assert checked(cluster, capsys, "send", "--warn", "0.001ms", "--crit", "0.001ms")[0] == CheckStatus.CRITICAL


def test_programs_get_an_object_with_figures_and_limits(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(cluster, capsys, "topic", waiting, "--skew-warn", "4", "--output", "json")
    reported = json.loads(out)
    assert (code, reported["check"], reported["status"], reported["exit"]) == (0, "topic checked", "ok", 0)
    assert reported["figures"]["skew"] == {"value": 1.0, "unit": "", "warn": 4.0, "crit": None}
    code, out = checked(cluster, capsys, "all", "--lag-warn", "2", "--output", "json")
    reported = json.loads(out)
    assert (code, reported["status"]) == (CheckStatus.WARNING, "warning")
    assert {part["check"]: part["status"] for part in reported["parts"]} == {
        "cluster": "ok",
        "topic checked": "ok",
        "group checked": "warning",
    }


def test_all_is_a_line_for_all_and_one_for_each(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(cluster, capsys, "all", "--members", "0")
    assert code == CheckStatus.OK
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "OK all",
        "OK cluster",
        f"OK topic {waiting}",
        f"OK group {waiting}",
    ]


def test_many_groups_are_not_each_searched_among_all(
    cluster: Cluster, waiting: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*_: object) -> None:
        pytest.fail("all groups were asked for once more")

    monkeypatch.setattr(AdminSession, "require_group", ask)
    code, out = checked(cluster, capsys, "all", "--members", "0")
    assert (code, f"OK group {waiting}" in out) == (CheckStatus.OK, True)


def test_people_get_lines_and_nothing_is_made_for_programs(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # With thousands of lines it would take minutes.
    monkeypatch.setattr(CheckResult, "as_json", lambda _: pytest.fail("values were made"))
    assert checked(cluster, capsys, "all")[0] == CheckStatus.OK


def test_what_is_not_there_and_who_cannot_be_reached_are_critical(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(cluster, capsys, "topic", "nowhere")
    assert (code, out.startswith("CRITICAL topic nowhere: topic 'nowhere' does not exist")) == (
        CheckStatus.CRITICAL,
        True,
    )
    assert checked(cluster, capsys, "group", "nobody")[0] == CheckStatus.CRITICAL
    for what in (["cluster"], ["all"], ["topic", "orders"]):
        code = main(["check", *what, "--namesrv", "127.0.0.1:1", "--timeout", "0.2"])
        reported = capsys.readouterr()
        assert (code, reported.out.startswith("CRITICAL ")) == (CheckStatus.CRITICAL, True), reported


@pytest.mark.process
def test_watching_marks_what_changed(cluster: Cluster, waiting: str) -> None:
    words = ["check", "group", waiting, "--members", "0", "--lag-warn", "2", "--every", "0.1s"]
    with command_process(cluster.namesrv, *words) as watching, Admin(cluster.namesrv) as admin:
        watching.wait_for(lambda: any(" WARNING group checked" in line for line in watching.out))
        admin.offsets.reset(waiting, waiting, "last")
        watching.wait_for(
            lambda: any(" OK (was WARNING) group checked: no member online" in line for line in watching.out)
        )
        assert watching.stop() == CheckStatus.OK
    assert watching.err == []


@pytest.mark.process
def test_a_broker_that_dies_is_reported_while_name_servers_know_it() -> None:
    words = ("check", "cluster", "--brokers", "2", "--every", "0.1s")
    with Cluster(brokers=2) as dying, command_process(dying.namesrv, *words) as watching:
        watching.wait_for(lambda: any(" OK cluster" in line for line in watching.out))
        dying.kill_broker("broker-1")
        watching.wait_for(lambda: any(" CRITICAL (was OK) cluster" in line for line in watching.out))
        dying.start_broker("broker-1")
        watching.wait_for(lambda: any(" OK (was CRITICAL) cluster" in line for line in watching.out))
        assert watching.stop() == CheckStatus.OK


@pytest.mark.process
def test_who_watches_a_server_that_hangs_need_not_wait_for_it() -> None:
    # Clients of tests that ended may still dial a port that was theirs; macOS has this one address only.
    host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    with socket.create_server((host, 0)) as mute:
        address = f"{host}:{mute.getsockname()[1]}"
        with command_process(address, "check", "cluster", "--every", "1s") as watching:
            mute.accept()[0].close()  # dialled: it looks
            with mute.accept()[0]:
                assert watching.stop() == ExitCode.INTERRUPTED
    assert watching.out == watching.err == []


def test_a_span_that_is_none_is_wrong_usage(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["send", "--warn", "soon"], ["cluster", "--every", "0s"]):
        assert main(["check", *words, "--namesrv", cluster.namesrv]) == 2
        assert capsys.readouterr().out == ""
