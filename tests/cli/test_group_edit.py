"""`steelyard group create|set|apply|mode|delete|show|lag`: settings are shown and changed, on each broker."""

import json
from pathlib import Path

import pytest

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.cli.processes import create_topic, run_process
from tests.cli.runner import RunCommand
from tests.cli.test_group import member
from tests.client.admin_scene import put
from tests.waiting import until


def test_a_group_is_made_shown_changed_and_deleted(run: RunCommand) -> None:
    assert run("group", "create", "made", "--retries", "3").out == "group made is created on broker-0, broker-1\n"
    assert run("group", "create", "made").out == "group made already exists\n"
    shown = run("group", "show", "made")
    assert ["retries", "3"] in shown.table
    assert ["brokers", "broker-0,", "broker-1"] in shown.table
    answer = run("group", "set", "made", "--retries", "5", "--no-broadcast", "--broker", "broker-1")
    assert answer.out == "group made is changed on broker-1: retries 3 -> 5; broadcast yes -> no\n"
    assert ["retries", "broker-0=3,", "broker-1=5"] in run("group", "show", "made").table
    reported = run("group", "show", "made", "--json").json
    assert (reported["brokers"]["broker-0"]["retries"], reported["brokers"]["broker-1"]["retries"]) == (3, 5)
    assert run("group", "set", "made", "--retries", "5", "--broker", "broker-1").out == (
        "group made already has these settings\n"
    )
    refused = run("group", "delete", "made")
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert (
        "group 'made' would be deleted, with its offsets (a lag of 0 messages) and its retries; if that" in refused.err
    )
    assert run("group", "delete", "made", "--yes").out == "group made is deleted\n"
    assert run("group", "show", "made").code == ExitCode.NOT_FOUND


def test_what_cannot_be_done_is_one_line_and_a_code(run: RunCommand) -> None:
    run("group", "create", "there", "--retries", "3")
    for words, code, why in (
        (
            ["create", "there", "--retries", "4"],
            ExitCode.USAGE,
            "already exists on broker-0, and would change: retries 3",
        ),
        (["create", "x", "--broker", "broker-9"], ExitCode.NOT_FOUND, "knows no broker 'broker-9'"),
        (["create", "not a name"], ExitCode.REFUSED, "may only have letters, digits"),
        (["create", "x", "--attribute", "odd"], ExitCode.USAGE, "'odd' is no attribute; write it as name=value"),
        (["create", "x", "--attribute", "a=1"], ExitCode.REFUSED, "unknown attribute 'a'"),
        (["create", "x", "--retry-policy", "{"], ExitCode.USAGE, "cannot be read"),
        (["set", "there"], ExitCode.USAGE, "there is nothing to change; give a setting"),
        (["set", "thre", "--retries", "1"], ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (["show", "thre"], ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (["lag", "thre"], ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (["delete", "thre", "--yes"], ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (["mode", "there", "orders", "push"], ExitCode.USAGE, "push"),
        (
            ["apply", "/no/such/file"],
            ExitCode.USAGE,
            "/no/such/file cannot be read (no such file",
        ),
    ):
        answer = run("group", *words)
        assert (answer.code, answer.out) == (code, ""), words
        (sentence,) = answer.err.splitlines()
        assert why in sentence, words


@pytest.mark.process
def test_nobody_is_reached_is_exit_code_five() -> None:
    done = run_process("127.0.0.1:1", "group", "ls", "--timeout", "0.2")
    assert done.returncode == ExitCode.UNREACHABLE
    assert b"no name server of 127.0.0.1:1 was reached" in done.stderr


def test_a_file_of_groups_is_shown_as_changes_and_then_applied(run: RunCommand, tmp_path: Path) -> None:
    run("group", "create", "old", "--retries", "3")
    run("group", "create", "same", "--retries", "7")
    file = tmp_path / "groups.json"
    wanted = [{"name": "old", "retries": 4}, {"name": "same", "retries": 7}, {"groupName": "java", "retryMaxTimes": 2}]
    file.write_text(json.dumps(wanted))
    planned = run("group", "apply", str(file), "--dry-run", "--json")
    assert planned.err == "nothing was changed\n"
    assert [(each["group"], each["broker"], each["what"]) for each in planned.lines] == [
        ("old", "broker-0", "change"),
        ("old", "broker-1", "change"),
        ("same", "broker-0", "keep"),
        ("same", "broker-1", "keep"),
        ("java", "broker-0", "create"),
        ("java", "broker-1", "create"),
    ]
    assert planned.lines[0]["differences"] == {"retries": [3, 4]}
    assert run("group", "show", "java").code == ExitCode.NOT_FOUND
    asked = run("group", "apply", str(file))
    assert asked.code == ExitCode.USAGE
    assert asked.err.splitlines() == [
        "old on broker-0: retries 3 -> 4",
        "old on broker-1: retries 3 -> 4",
        "steelyard: 1 group would be changed; if that is wanted, add --yes",
    ]
    assert run("group", "apply", str(file), "--yes").code == 0
    assert ["retries", "4"] in run("group", "show", "old").table
    assert ["retries", "2"] in run("group", "show", "java").table
    again = run("group", "apply", str(file), "--output", "csv")
    assert {row["what"] for row in again.csv} == {"keep"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no group in it"),
        ("[1]", "'1' is no group"),
        ("{", "that is no JSON"),
        ('{"name": "x", "retires": 1}', "a group has no setting 'retires'; did you mean 'retries'?"),
        ('{"name": "x", "retries": "many"}', "a group cannot be read"),
        ('{"retries": 1}', "a group cannot be read"),
        ('{"groupName": "x", "retryMaxTimes": "many"}', "cannot be read"),
        ('{"name": "x"}\n{"name": "x"}', "group 'x' is given twice"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(run: RunCommand, tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "groups.json"
    file.write_text(text)
    answer = run("group", "apply", str(file), "--yes")
    assert answer.code == ExitCode.USAGE
    assert why in answer.err


@pytest.mark.process
def test_what_one_group_has_can_be_given_to_another(cluster: Cluster, run: RunCommand) -> None:
    run("group", "create", "model", "--retries", "3", "--no-notices")
    settings = run("group", "show", "model", "--output", "json").json["brokers"]["broker-0"]
    done = run_process(
        cluster.namesrv, "group", "apply", "-", "--json", stdin=json.dumps({"name": "copy", **settings}).encode()
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert run("group", "show", "copy", "--json").json["brokers"]["broker-1"] == settings


def test_the_mode_is_pull_and_pop_is_refused_by_our_brokers(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "moded")
    run("group", "create", "moding")
    assert run("group", "mode", "moding", "moded", "pull").out == (
        "group moding pulls messages of moded on broker-0, broker-1\n"
    )
    refused = run("group", "mode", "moding", "moded", "pop")
    assert refused.code == ExitCode.REFUSED
    assert "does not serve POP" in refused.err


def test_a_group_with_members_is_not_deleted(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "kept")
    with member(cluster, "keepers", "k1", "kept"):
        until(lambda: run("member", "ls", "keepers", "--json").out != "")
        refused = run("group", "delete", "keepers", "--yes")
        assert refused.code == ExitCode.USAGE
        assert "has 1 member online, which would create it again; stop them first" in refused.err


def test_lag_is_shown_by_topic_in_every_format(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "late", 1)
    for broker, address in cluster.brokers.items():
        for _ in range(3):
            put(address, Queue("late", broker, 0), b"x")
    run("group", "create", "slow")
    run("offset", "reset", "slow", "--topic", "late", "--to", "1", "--yes")
    with Admin(cluster.namesrv) as admin:
        assert sum(row.lag for row in admin.offsets.list("slow")) == 4
    for rows in (
        run("group", "lag", "slow", "--output", "json").json,
        run("group", "lag", "slow", "--json").lines,
        run("group", "lag", "slow", "--output", "csv").csv,
    ):
        assert [(row["topic"], int(row["queues"]), int(row["lag"])) for row in rows] == [("late", 2, 4)]
        assert float(rows[0]["behind_s"]) >= 0
    table = run("group", "lag", "slow").table
    assert table[0] == ["topic", "queues", "lag", "handled", "up", "to", "behind"]
    assert table[1][:3] == ["late", "2", "4"]
