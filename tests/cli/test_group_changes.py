"""`steelyard group create|set|apply|mode|delete|show|lag`: settings are told and changed, on each broker."""

import json
from pathlib import Path

import pytest
from tests.cli.desk import Desk
from tests.cli.live import create_topic, run
from tests.cli.test_group import member
from tests.client.admin_scene import put
from tests.waiting import until

from steelyard.cli.frame.exits import Exit
from steelyard.client.blocking.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster


def test_a_group_is_made_shown_changed_and_deleted(desk: Desk) -> None:
    assert desk("group", "create", "made", "--retries", "3").out == "group made is made on broker-0, broker-1\n"
    assert desk("group", "create", "made").out == "group made is there already\n"
    shown = desk("group", "show", "made")
    assert ["retries", "3"] in shown.table
    assert ["brokers", "broker-0,", "broker-1"] in shown.table
    answer = desk("group", "set", "made", "--retries", "5", "--no-broadcast", "--broker", "broker-1")
    assert answer.out == "group made is changed on broker-1: retries 3 -> 5; broadcast yes -> no\n"
    assert ["retries", "broker-0=3,", "broker-1=5"] in desk("group", "show", "made").table
    told = desk("group", "show", "made", "--json").json
    assert (told["brokers"]["broker-0"]["retries"], told["brokers"]["broker-1"]["retries"]) == (3, 5)
    assert desk("group", "set", "made", "--retries", "5", "--broker", "broker-1").out == (
        "group made is as wanted already\n"
    )
    refused = desk("group", "delete", "made")
    assert (refused.code, refused.out) == (Exit.USAGE, "")
    assert "group 'made' would be deleted, with its offsets (0 messages wait) and its retries; if that" in refused.err
    assert desk("group", "delete", "made", "--yes").out == "group made is deleted\n"
    assert desk("group", "show", "made").code == Exit.NOT_FOUND


def test_what_cannot_be_done_is_one_line_and_a_code(desk: Desk) -> None:
    desk("group", "create", "there", "--retries", "3")
    for words, code, why in (
        (["create", "there", "--retries", "4"], Exit.USAGE, "exists already on broker-0, and would change: retries 3"),
        (["create", "x", "--broker", "broker-9"], Exit.NOT_FOUND, "knows no broker 'broker-9'"),
        (["create", "not a name"], Exit.REFUSED, "may only have letters, digits"),
        (["create", "x", "--attribute", "odd"], Exit.USAGE, "'odd' is no attribute; write it as NAME=VALUE"),
        (["create", "x", "--attribute", "a=1"], Exit.REFUSED, "no attribute is called 'a'"),
        (["create", "x", "--retry-policy", "{"], Exit.USAGE, "cannot be read"),
        (["set", "there"], Exit.USAGE, "there is nothing to change; give a setting"),
        (["set", "thre", "--retries", "1"], Exit.NOT_FOUND, "Did you mean 'there'?"),
        (["show", "thre"], Exit.NOT_FOUND, "Did you mean 'there'?"),
        (["lag", "thre"], Exit.NOT_FOUND, "Did you mean 'there'?"),
        (["delete", "thre", "--yes"], Exit.NOT_FOUND, "Did you mean 'there'?"),
        (["mode", "there", "orders", "push"], Exit.USAGE, "push"),
        (["apply", "/no/such/file"], Exit.USAGE, "/no/such/file cannot be read (No such file or directory)"),
    ):
        answer = desk("group", *words)
        assert (answer.code, answer.out) == (code, ""), words
        (sentence,) = answer.err.splitlines()
        assert why in sentence, words


@pytest.mark.process
def test_nobody_is_reached_is_exit_code_five() -> None:
    done = run("127.0.0.1:1", "group", "ls", "--timeout", "0.2")
    assert done.returncode == Exit.UNREACHABLE
    assert b"no name server of 127.0.0.1:1 was reached" in done.stderr


def test_a_file_of_groups_is_shown_as_changes_and_then_applied(desk: Desk, tmp_path: Path) -> None:
    desk("group", "create", "old", "--retries", "3")
    desk("group", "create", "same", "--retries", "7")
    file = tmp_path / "groups.json"
    wanted = [{"name": "old", "retries": 4}, {"name": "same", "retries": 7}, {"groupName": "java", "retryMaxTimes": 2}]
    file.write_text(json.dumps(wanted))
    planned = desk("group", "apply", str(file), "--dry-run", "--json")
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
    assert desk("group", "show", "java").code == Exit.NOT_FOUND
    asked = desk("group", "apply", str(file))
    assert asked.code == Exit.USAGE
    assert asked.err.splitlines() == [
        "old on broker-0: retries 3 -> 4",
        "old on broker-1: retries 3 -> 4",
        "steelyard: 1 group would get other settings; if that is wanted, say --yes",
    ]
    assert desk("group", "apply", str(file), "--yes").code == 0
    assert ["retries", "4"] in desk("group", "show", "old").table
    assert ["retries", "2"] in desk("group", "show", "java").table
    again = desk("group", "apply", str(file), "--output", "csv")
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
        ('{"name": "x"}\n{"name": "x"}', "group 'x' is there twice"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(desk: Desk, tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "groups.json"
    file.write_text(text)
    answer = desk("group", "apply", str(file), "--yes")
    assert answer.code == Exit.USAGE
    assert why in answer.err


@pytest.mark.process
def test_what_one_group_has_can_be_given_to_another(cluster: Cluster, desk: Desk) -> None:
    desk("group", "create", "model", "--retries", "3", "--no-notices")
    settings = desk("group", "show", "model", "--output", "json").json["brokers"]["broker-0"]
    done = run(
        cluster.namesrv, "group", "apply", "-", "--json", stdin=json.dumps({"name": "copy", **settings}).encode()
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert desk("group", "show", "copy", "--json").json["brokers"]["broker-1"] == settings


def test_the_mode_is_pull_and_pop_is_refused_by_our_brokers(cluster: Cluster, desk: Desk) -> None:
    create_topic(cluster.namesrv, "moded")
    desk("group", "create", "moding")
    assert desk("group", "mode", "moding", "moded", "pull").out == (
        "group moding pulls messages of moded on broker-0, broker-1\n"
    )
    refused = desk("group", "mode", "moding", "moded", "pop")
    assert refused.code == Exit.REFUSED
    assert "does not serve POP" in refused.err


def test_a_group_with_members_is_not_deleted(cluster: Cluster, desk: Desk) -> None:
    create_topic(cluster.namesrv, "kept")
    with member(cluster, "keepers", "k1", "kept"):
        until(lambda: desk("member", "ls", "keepers", "--json").out != "")
        refused = desk("group", "delete", "keepers", "--yes")
        assert refused.code == Exit.USAGE
        assert "has 1 member online, which would make it again; stop them first" in refused.err


def test_what_waits_is_told_by_topic_in_every_format(cluster: Cluster, desk: Desk) -> None:
    create_topic(cluster.namesrv, "late", 1)
    for broker, address in cluster.brokers.items():
        for _ in range(3):
            put(address, Queue("late", broker, 0), b"x")
    desk("group", "create", "slow")
    desk("offset", "reset", "slow", "--topic", "late", "--to", "1", "--yes")
    with Admin(cluster.namesrv) as admin:
        assert sum(row.lag for row in admin.offsets("slow")) == 4
    for rows in (
        desk("group", "lag", "slow", "--output", "json").json,
        desk("group", "lag", "slow", "--json").lines,
        desk("group", "lag", "slow", "--output", "csv").csv,
    ):
        assert [(row["topic"], int(row["queues"]), int(row["lag"])) for row in rows] == [("late", 2, 4)]
        assert float(rows[0]["behind_s"]) >= 0
    table = desk("group", "lag", "slow").table
    assert table[0] == ["topic", "queues", "waiting", "handled", "up", "to", "behind"]
    assert table[1][:3] == ["late", "2", "4"]
