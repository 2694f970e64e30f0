"""`steelyard dead-letters`: what a group gave up is shown, and redelivered to that group alone."""

import json

import pytest

from steelyard.cli import dead_letters
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.message_ids import parse_offset_id
from tests.cli.processes import create_topic, run_process
from tests.cli.runner import RunCommand
from tests.client.admin_scene import give_up, put


def unique(topic: str, number: int) -> str:
    """Return an id such as a producer gives."""
    return f"7F0000010000{sum(topic.encode()):08X}{number:012X}"


def bury(cluster: Cluster, topic: str, count: int = 3) -> str:
    """Make a topic, and a group that gave up all of its messages."""
    create_topic(cluster.namesrv, topic, 1)
    group, address = f"{topic}-group", cluster.brokers["broker-0"]
    with Admin(cluster.namesrv) as admin:
        admin.groups.create(group)
    for number in range(count):
        stored = put(
            address,
            Queue(topic, "broker-0", 0),
            b"order %d" % number,
            KEYS=f"key-{number}",
            TAGS="paid",
            UNIQ_KEY=unique(topic, number),
        )
        give_up(address, group, parse_offset_id(stored.msg_id)[1], topic, f"ValueError: no customer {number}")
    return group


def came_again(cluster: Cluster, group: str) -> list[bytes]:
    """Return what is on its way to a group again."""
    with Admin(cluster.namesrv) as admin:
        return [message.body for message in admin.messages.list(f"%RETRY%{group}")]


def test_dead_letters_are_counted_and_listed_in_every_format(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "listed")
    (mine,) = [row for row in run("dead-letters", "ls", "--json").lines if row["group"] == group]
    assert mine["messages"] == 3
    table = run("dead-letters", "ls", group).table
    assert table[0] == ["id", "sent", "to", "attempts", "given", "up", "error", "resent", "keys", "tags", "body"]
    assert [row[0] for row in table[1:]] == [unique("listed", number) for number in range(3)]
    assert table[1][1:3] == ["listed", "1"]
    assert table[1][4:9] == ["ValueError:", "no", "customer", "0", "-"]
    for rows in (
        run("dead-letters", "ls", group, "--output", "json").json,
        run("dead-letters", "ls", group, "--json").lines,
        run("dead-letters", "ls", group, "--output", "csv").csv,
    ):
        assert [row["message_id"] for row in rows] == [unique("listed", number) for number in range(3)]
        assert {row["to"] for row in rows} == {"listed"}
        assert [row["error"] for row in rows] == [f"ValueError: no customer {number}" for number in range(3)]
    assert run("dead-letters", "ls", group, "--since", "2030-01-01", "--output", "json").json == []
    few = run("dead-letters", "ls", group, "--count", "2", "--json")
    assert len(few.lines) == 2
    assert few.err.startswith("there are more than 2")


def test_one_dead_letter_is_shown_whole(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "whole")
    answer = run("dead-letters", "show", group, unique("whole", 1))
    assert ["keys", "key-1"] in answer.table
    assert answer.out.endswith("\norder 1\n")
    reported = run("dead-letters", "show", group, unique("whole", 1), "--json").json
    assert (reported["body"], reported["to"], reported["attempts"]) == ("order 1", "whole", 1)
    assert (reported["error"], reported["resent_at"]) == ("ValueError: no customer 1", None)
    assert run("dead-letters", "show", group, reported["properties"]["UNIQ_KEY"]).code == 0


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "previewed")
    answer = run("dead-letters", "resend", group, "--all", "--dry-run")
    assert len(answer.table) == 4
    assert answer.err == f"3 dead letters would be redelivered to group {group}; nothing was sent\n"
    with Admin(cluster.namesrv) as admin:
        assert f"%RETRY%{group}" not in {topic.name for topic in admin.topics.list(system=True)} or not came_again(
            cluster, group
        )


def test_without_a_terminal_no_one_is_asked_and_nothing_is_sent(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "unsent")
    answer = run("dead-letters", "resend", group, "--id", unique("unsent", 2))
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert answer.err.splitlines() == [
        f"{unique('unsent', 2)} to unsent, given up after 1 attempt: order 2",
        f"steelyard: 1 dead letter would be redelivered to group {group}; if that is wanted, add --yes",
    ]


def test_dead_letters_go_to_their_group_again(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "again")
    one = run("dead-letters", "resend", group, "--id", unique("again", 1), "--yes")
    assert (one.code, one.out) == (0, f"1 dead letter is redelivered to group {group}\n")
    assert came_again(cluster, group) == [b"order 1"]
    rest = run("dead-letters", "resend", group, "--since", "1h", "--yes", "--json").json
    assert rest == {"group": group, "sent": 3}
    assert sorted(came_again(cluster, group)) == [b"order 0", b"order 1", b"order 1", b"order 2"]
    none = run("dead-letters", "resend", group, "--since", "2030-01-01", "--yes")
    assert (none.code, none.out) == (0, f"group {group} has no such dead letters\n")


def test_what_was_resent_is_marked_wherever_it_is_shown(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "marked")
    run("dead-letters", "resend", group, "--id", unique("marked", 1), "--yes")
    rows = run("dead-letters", "ls", group, "--json").lines
    assert [bool(row["resent_at"]) for row in rows] == [False, True, False]
    shown = run("dead-letters", "show", group, unique("marked", 1), "--json").json
    assert (shown["resent_at"], shown["resent_by"]) == (rows[1]["resent_at"], rows[1]["resent_by"])
    assert "@" in shown["resent_by"]
    preview = run("dead-letters", "resend", group, "--all").err.splitlines()
    assert [", resent at " in line for line in preview[:3]] == [False, True, False]


def test_many_dead_letters_are_read_in_pages_and_the_first_are_previewed(
    cluster: Cluster, run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PAGE_SIZE", 2)
    monkeypatch.setattr(dead_letters, "_PREVIEW_ROWS", 3)
    group = bury(cluster, "many", 5)
    asked = run("dead-letters", "resend", group, "--all")
    assert len(asked.err.splitlines()) == 5
    assert asked.err.splitlines()[3] == "and 2 more, which --dry-run lists"
    assert len(run("dead-letters", "resend", group, "--all", "--dry-run", "--json").lines) == 5
    assert run("dead-letters", "resend", group, "--all", "--yes").out.startswith("5 dead letters are redelivered")
    assert sorted(came_again(cluster, group)) == [b"order %d" % number for number in range(5)]
    assert len(run("dead-letters", "export", group).lines) == 5


@pytest.mark.process
def test_dead_letters_are_exported_whole_and_deleted(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "exported")
    done = run_process(cluster.namesrv, "dead-letters", "export", group)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["body"] for line in lines] == ["order 0", "order 1", "order 2"]
    assert {"properties", "keys", "tags", "to", "attempts", "given_up_at"} <= lines[0].keys()
    assert len(run("dead-letters", "export", group, "--output", "csv").csv) == 3
    asked = run("dead-letters", "delete", group)
    assert asked.code == ExitCode.USAGE
    assert f"3 dead letters of group '{group}' would be deleted" in asked.err
    assert run("dead-letters", "delete", group, "--yes").out == f"3 dead letters of group {group} are deleted\n"
    assert run("dead-letters", "delete", group, "--yes").out == f"group {group} has no dead letters\n"
    assert run("dead-letters", "ls", group, "--output", "json").json == []


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["ls", "nobody"], ExitCode.NOT_FOUND, "group 'nobody' does not exist"),
        (["export", "nobody"], ExitCode.NOT_FOUND, "group 'nobody' does not exist"),
        (["delete", "nobody"], ExitCode.NOT_FOUND, "group 'nobody' does not exist"),
        (["resend", "nobody", "--all"], ExitCode.NOT_FOUND, "group 'nobody' does not exist"),
        (["resend", "nobody"], ExitCode.USAGE, "which dead letters to resend is not given; give one of --id, --since"),
        (["resend", "nobody", "--all", "--since", "1h"], ExitCode.USAGE, "give one of --id, --since and --all"),
        (["ls", "nobody", "--since", "yesteryear"], ExitCode.USAGE, "'yesteryear' is no time"),
        (["show", "nobody", "7F0000010000"], ExitCode.NOT_FOUND, "group 'nobody' has no dead letter with the id"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(
    run: RunCommand, words: list[str], code: ExitCode, why: str
) -> None:
    answer = run("dead-letters", *words)
    assert (answer.code, answer.out) == (code, "")
    (sentence,) = answer.err.splitlines()
    assert why in sentence


def test_an_id_that_is_none_of_them_is_not_found(cluster: Cluster, run: RunCommand) -> None:
    group = bury(cluster, "known", 1)
    answer = run("dead-letters", "show", group, unique("known", 9))
    assert answer.code == ExitCode.NOT_FOUND
    assert f"group '{group}' has no dead letter with the id" in answer.err
    with Admin(cluster.namesrv) as admin:
        (other,) = admin.messages.list("known")
    assert run("dead-letters", "show", group, other.offset_id).code == ExitCode.NOT_FOUND, "it is no dead letter"
    odd = run("dead-letters", "show", group, "order-1")
    assert odd.code == ExitCode.USAGE
    assert "'order-1' is not one; see which there are: steelyard dead-letters ls known-group" in odd.err
