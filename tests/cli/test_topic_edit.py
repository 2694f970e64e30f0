"""`steelyard topic set|add-queues|order|apply`: changes are seen before they are made, and made as they were seen."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message, Permission
from steelyard.serve.embedded import Cluster
from tests.cli.runner import RunCommand

Captured = pytest.CaptureFixture[str]


def rows(capsys: Captured) -> list[dict[str, Any]]:
    """Return what was printed as JSON."""
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def made(cluster: Cluster, topic: str, queues: int = 4) -> list[str]:
    """Make a topic, and return the options that every command gets."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(topic, queues)
    return ["--namesrv", cluster.namesrv, "--output", "json"]


def test_a_dry_run_shows_what_then_happens(cluster: Cluster, capsys: Captured) -> None:
    at = made(cluster, "tried")
    change = ["topic", "set", "tried", "--may", "read", "--write-queues", "2"]
    assert main([*change, "--dry-run", *at]) == 0
    reported = capsys.readouterr()
    assert reported.err == "nothing was changed\n"
    assert json.loads(reported.out) == [
        {
            "topic": "tried",
            "broker": broker,
            "action": "change",
            "details": "4 queues become 4 queues to read and 2 to write; clients may read",
        }
        for broker in ("broker-0", "broker-1")
    ]
    with Admin(cluster.namesrv) as admin:
        assert {each.write for each in admin.topics.route("tried").counts} == {4}
        assert main([*change, *at]) == 0
        assert capsys.readouterr().out == reported.out
        assert {(each.write, each.permission) for each in admin.topics.route("tried").counts} == {(2, Permission.READ)}
    assert main([*change, *at]) == 0
    assert {each["action"] for each in rows(capsys)} == {"keep"}
    assert main([*change, "--dry-run", *at]) == 0
    assert capsys.readouterr().err == "there is nothing to change\n"


def test_a_change_may_be_for_one_broker(cluster: Cluster, capsys: Captured) -> None:
    at = made(cluster, "partly")
    assert main(["topic", "set", "partly", "--may", "write", "--broker", "broker-1", *at]) == 0
    assert [each["broker"] for each in rows(capsys)] == ["broker-1"]
    assert main(["topic", "settings", "partly", "--namesrv", cluster.namesrv]) == 0
    assert capsys.readouterr().err == "brokers have different settings for it\n"


def test_messages_that_could_not_be_read_any_more_are_asked_about(
    cluster: Cluster, capsys: Captured, tmp_path: Path
) -> None:
    at = made(cluster, "narrow")
    with Producer(cluster.namesrv) as producer:
        for _ in range(8):
            producer.send(Message("narrow", b"x"))
    file = tmp_path / "topics.json"
    file.write_text('{"narrow": 2}')
    for words in (["set", "narrow", "--read-queues", "2"], ["apply", str(file)]):
        assert main(["topic", *words, *at]) == ExitCode.USAGE
        assert capsys.readouterr().err == (
            "steelyard: 4 queues of topic 'narrow' with 4 messages could not be read any more; if that is wanted, "
            "add --yes\n"
        )
        assert main(["topic", *words, "--dry-run", *at]) == 0, "to look costs nothing"
        capsys.readouterr()
    assert main(["topic", "set", "narrow", "--read-queues", "2", "--yes", *at]) == 0
    assert {each["details"] for each in rows(capsys)} == {"4 queues become 2 queues to read and 4 to write"}


def test_attributes_are_put_and_taken_away(cluster: Cluster, capsys: Captured) -> None:
    at = made(cluster, "typed", 1)
    put = ["--attribute", "message.type=DELAY", "--attribute", "reserve.time=5"]
    assert main(["topic", "set", "typed", *put, *at]) == 0
    assert {each["details"] for each in rows(capsys)} == {"message.type is DELAY; reserve.time is 5"}
    assert main(["topic", "set", "typed", "--no-attribute", "reserve.time", *at]) == 0
    assert {each["details"] for each in rows(capsys)} == {"reserve.time is taken away"}
    assert main(["topic", "settings", "typed", *at]) == 0
    assert [each["attributes"] for each in rows(capsys)] == [{"message.type": "DELAY"}] * 2


def test_the_list_of_an_ordered_topic_is_shown_fixed_and_freed(cluster: Cluster, capsys: Captured) -> None:
    at = made(cluster, "ordered", 2)
    assert main(["topic", "order", "ordered", *at]) == 0
    assert capsys.readouterr() == ("[]\n", "the list of queues of topic ordered is not fixed\n")
    assert main(["topic", "order", "ordered", "--fix", "all", *at]) == 0
    assert [(each["broker"], each["queues"]) for each in rows(capsys)] == [("broker-0", 2), ("broker-1", 2)]
    assert main(["topic", "order", "ordered", "--fix", "broker-1:1", *at]) == 0
    assert rows(capsys) == [{"topic": "ordered", "broker": "broker-1", "queues": 1}]
    assert main(["topic", "set", "ordered", "--may", "read", *at]) == 0
    with Admin(cluster.namesrv) as admin:
        assert admin.topics.order("ordered") == {"broker-1": 1}, "what does not touch the list leaves it"
        admin.topics.add_queues("ordered", 3)
        assert admin.topics.order("ordered") == {"broker-1": 3}
        admin.name_servers.set_config({"orderMessageEnable": "false"})
        try:
            assert main(["topic", "order", "ordered", *at]) == 0
            assert (
                "do not send it to clients; let them: steelyard cluster name-server config set"
                in capsys.readouterr().err
            )
        finally:
            admin.name_servers.set_config({"orderMessageEnable": "true"})
    assert main(["topic", "order", "ordered", "--clear", *at]) == 0
    assert json.loads(capsys.readouterr().out) == {"topic": "ordered", "order": None}


def test_a_file_of_topics_is_applied_in_both_forms(
    cluster: Cluster, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = made(cluster, "file-old", 2)
    ours = tmp_path / "ours.json"
    ours.write_text(
        json.dumps(
            {
                "file-old": None,
                "file-new": 3,
                "file-one": {
                    "queues": 1,
                    "may": "read",
                    "brokers": ["broker-1"],
                    "attributes": {"message.type": "FIFO"},
                },
            }
        )
    )
    assert main(["topic", "apply", str(ours), *at]) == 0
    assert [(each["topic"], each["broker"], each["action"]) for each in rows(capsys)] == [
        ("file-old", "broker-0", "keep"),
        ("file-old", "broker-1", "keep"),
        ("file-new", "broker-0", "create"),
        ("file-new", "broker-1", "create"),
        ("file-one", "broker-1", "create"),
    ]
    theirs = [
        {"topicName": "file-new", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False},
        {"topicName": "file-one", "perm": 4, "attributes": {"-message.type": ""}, "brokers": ["broker-1"]},
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(theirs).encode())))
    assert main(["topic", "apply", "-", *at]) == 0
    assert [(each["topic"], each["details"]) for each in rows(capsys)] == [
        ("file-new", "3 queues become 4"),
        ("file-new", "3 queues become 4"),
        ("file-one", "message.type is taken away"),
    ]


def test_many_topics_are_read_in_one_request_to_each_broker(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    at = made(cluster, "many-0", 1)
    file = tmp_path / "many.json"
    file.write_text(json.dumps({f"many-{number}": 1 for number in range(20)}))
    for actions in ({"keep": 2, "create": 38}, {"keep": 40}):
        assert main(["topic", "apply", str(file), *at]) == 0
        reported = [each["action"] for each in rows(capsys)]
        assert {action: reported.count(action) for action in set(reported)} == actions


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("3", "has no list of topics; write"),
        ('{"a": "many"}', "has neither a number nor an object for topic 'a'"),
        ('{"a": true}', "has neither a number nor an object for topic 'a'"),
        ('{"a": {"name": "b"}}', "has neither a number nor an object for topic 'a'"),
        ('{"a": {"queus": 2}}', "has 'queus', which is unknown; did you mean 'queues'?"),
        ('{"a": {"queues": "2"}}', "'queues' in entry 0 of FILE has the wrong type; give a whole number"),
        ('{"a": 0}', "topic 'a' cannot have 0 queues on a broker"),
        ('{"": 1}', "a topic needs a name"),
        ("[[]]", "entry 0 of FILE is no object"),
        ('[{"queues": 2}]', "entry 0 of FILE names no topic"),
        ('[{"name": "a", "may": "fly"}]', "'fly' is no permission; give read-write, read, write or nothing"),
        ('[{"name": "a", "order": "yes"}]', "give true or false"),
        ('[{"name": "a", "brokers": []}]', "give a list of brokers' names"),
        ('[{"name": "a", "attributes": {"b": 1}}]', "give an object of texts"),
        ('[{"name": "a", "attributes": {"b": "1,+c=2"}}]', "topic 'a' cannot have the attribute 'b'"),
        ('[{"topicName": "a", "perm": 77}]', "give 2 to write, 4 to read or 6 for both"),
        ('[{"topicName": "a", "queues": 7}]', "has 'queues', which is unknown"),
        ('[{"name": "a", "queues": 1}, {"name": "a", "queues": 2}]', "topic 'a' has two different specs for broker-0"),
        ('["\\u001b[2J", 4]', "entry 1 of FILE is no object"),
    ],
)
def test_a_file_that_says_something_else_is_refused_in_a_line(
    cluster: Cluster, capsys: Captured, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "topics.json"
    file.write_text(text)
    assert main(["topic", "apply", str(file), "--namesrv", cluster.namesrv]) == ExitCode.USAGE
    output = capsys.readouterr()
    assert why in output.err.replace(str(file), "FILE")
    assert (output.out, output.err.count("\n")) == ("", 1)


def test_a_file_that_is_not_there_is_named(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        assert main(["topic", "apply", str(path), "--namesrv", cluster.namesrv]) == ExitCode.USAGE
        assert f"{path} cannot be read (" in capsys.readouterr().err


def test_a_person_at_a_terminal_is_asked_and_may_say_no(
    cluster: Cluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = made(cluster, "asked", 1)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for answer, code in (("n\n", ExitCode.FAILED), ("", ExitCode.FAILED), ("y\n", 0)):
        asked = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", asked)
        assert main(["topic", "delete", "asked", *at]) == code
        assert "topic 'asked' has 0 messages, which would be deleted with it. Continue? [y/N]" in asked.getvalue()
    assert json.loads(capsys.readouterr().out) == {"topic": "asked", "messages": 0}


def test_names_are_those_of_the_namespace(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    at = ["--namesrv", cluster.namesrv, "--output", "json"]
    file = tmp_path / "topics.json"
    file.write_text('{"tenant": {"queues": 1, "order": true}}')
    for action in ("create", "keep"):
        assert main(["topic", "apply", str(file), "--namespace", "eu", *at]) == 0
        assert {(each["topic"], each["action"]) for each in rows(capsys)} == {("tenant", action)}
    with Admin(cluster.namesrv) as admin:
        assert admin.topics.order("eu%tenant") == {"broker-0": 1, "broker-1": 1}
    assert main(["topic", "ls", "--namespace", "eu", *at]) == 0
    assert [each["topic"] for each in rows(capsys)] == ["tenant"]
    assert main(["topic", "set", "tenant", "--may", "read", *at]) == ExitCode.NOT_FOUND
    assert main(["topic", "delete", "tenant", "--namespace", "eu", "--yes", *at]) == 0
    with Admin(cluster.namesrv) as admin:
        assert admin.name_servers.key_values("ORDER_TOPIC_CONFIG").get("eu%tenant") is None


def test_a_name_that_no_broker_takes_is_refused_before_others_are_made(run: RunCommand, tmp_path: Path) -> None:
    wishes = {f"mixed-{number}": 1 for number in range(12)} | {"my orders": 1}
    (tmp_path / "topics.json").write_text(json.dumps(wishes), encoding="utf-8")
    answer = run("topic", "apply", str(tmp_path / "topics.json"))
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert "no topic can be called 'my orders'" in answer.err
    assert run("topic", "ls", "mixed-*", "--json").out == ""
