"""`steelyard dead-letters`: what a group gave up is shown, and goes to that group again when somebody wants it."""

import json

import pytest
from tests.cli.desk import Desk
from tests.cli.live import create_topic, run
from tests.client.admin_scene import give_up, put

from steelyard.cli import dead_letters
from steelyard.cli.frame.exits import Exit
from steelyard.client.blocking.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.message_ids import read_offset_id


def unique(topic: str, number: int) -> str:
    """Return an id such as a producer gives."""
    return f"7F0000010000{sum(topic.encode()):08X}{number:012X}"


def bury(cluster: Cluster, topic: str, count: int = 3) -> str:
    """Make a topic, and a group that gave up all of its messages."""
    create_topic(cluster.namesrv, topic, 1)
    group, address = f"{topic}-group", cluster.brokers["broker-0"]
    with Admin(cluster.namesrv) as admin:
        admin.create_group(group)
    for number in range(count):
        stored = put(
            address,
            Queue(topic, "broker-0", 0),
            b"order %d" % number,
            KEYS=f"key-{number}",
            TAGS="paid",
            UNIQ_KEY=unique(topic, number),
        )
        give_up(address, group, read_offset_id(stored.msg_id)[1], topic)
    return group


def came_again(cluster: Cluster, group: str) -> list[bytes]:
    """Return what is on its way to a group again."""
    with Admin(cluster.namesrv) as admin:
        return [message.body for message in admin.messages(f"%RETRY%{group}")]


def test_dead_letters_are_counted_and_listed_in_every_format(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "listed")
    (mine,) = [row for row in desk("dead-letters", "ls", "--json").lines if row["group"] == group]
    assert mine["messages"] == 3
    table = desk("dead-letters", "ls", group).table
    assert table[0] == ["id", "sent", "to", "attempts", "given", "up", "keys", "tags", "body"]
    assert [row[0] for row in table[1:]] == [unique("listed", number) for number in range(3)]
    assert table[1][1:3] == ["listed", "1"]
    for rows in (
        desk("dead-letters", "ls", group, "--output", "json").json,
        desk("dead-letters", "ls", group, "--json").lines,
        desk("dead-letters", "ls", group, "--output", "csv").csv,
    ):
        assert [row["message_id"] for row in rows] == [unique("listed", number) for number in range(3)]
        assert {row["to"] for row in rows} == {"listed"}
    assert desk("dead-letters", "ls", group, "--since", "2030-01-01", "--output", "json").json == []
    few = desk("dead-letters", "ls", group, "--count", "2", "--json")
    assert len(few.lines) == 2
    assert few.err.startswith("there are more than 2")


def test_one_dead_letter_is_shown_whole(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "whole")
    answer = desk("dead-letters", "show", group, unique("whole", 1))
    assert ["keys", "key-1"] in answer.table
    assert answer.out.endswith("\norder 1\n")
    told = desk("dead-letters", "show", group, unique("whole", 1), "--json").json
    assert (told["body"], told["to"], told["attempts"]) == ("order 1", "whole", 1)
    assert desk("dead-letters", "show", group, told["properties"]["UNIQ_KEY"]).code == 0


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "previewed")
    answer = desk("dead-letters", "resend", group, "--all", "--dry-run")
    assert len(answer.table) == 4
    assert answer.err == f"3 dead letters would be given to group {group} again; nothing was sent\n"
    with Admin(cluster.namesrv) as admin:
        assert f"%RETRY%{group}" not in {topic.name for topic in admin.topics(system=True)} or not came_again(
            cluster, group
        )


def test_without_a_terminal_nobody_is_asked_and_nothing_is_sent(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "unsent")
    answer = desk("dead-letters", "resend", group, "--id", unique("unsent", 2))
    assert (answer.code, answer.out) == (Exit.USAGE, "")
    assert answer.err.splitlines() == [
        f"{unique('unsent', 2)} to unsent, given up after 1 attempt: order 2",
        f"steelyard: 1 dead letter would be given to group {group} again; if that is wanted, say --yes",
    ]


def test_dead_letters_go_to_their_group_again(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "again")
    one = desk("dead-letters", "resend", group, "--id", unique("again", 1), "--yes")
    assert (one.code, one.out) == (0, f"1 dead letter is given to group {group} again\n")
    assert came_again(cluster, group) == [b"order 1"]
    rest = desk("dead-letters", "resend", group, "--since", "1h", "--yes", "--json").json
    assert rest == {"group": group, "sent": 3}
    assert sorted(came_again(cluster, group)) == [b"order 0", b"order 1", b"order 1", b"order 2"]
    none = desk("dead-letters", "resend", group, "--since", "2030-01-01", "--yes")
    assert (none.code, none.out) == (0, f"group {group} has no such dead letters\n")


def test_many_dead_letters_are_read_in_pages_and_the_first_are_previewed(
    cluster: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PAGE", 2)
    monkeypatch.setattr(dead_letters, "_PREVIEWED", 3)
    group = bury(cluster, "many", 5)
    asked = desk("dead-letters", "resend", group, "--all")
    assert len(asked.err.splitlines()) == 5
    assert asked.err.splitlines()[3] == "and 2 more, which --dry-run lists"
    assert len(desk("dead-letters", "resend", group, "--all", "--dry-run", "--json").lines) == 5
    assert desk("dead-letters", "resend", group, "--all", "--yes").out.startswith("5 dead letters are given")
    assert sorted(came_again(cluster, group)) == [b"order %d" % number for number in range(5)]
    assert len(desk("dead-letters", "export", group).lines) == 5


@pytest.mark.process
def test_dead_letters_are_exported_whole_and_deleted(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "exported")
    done = run(cluster.namesrv, "dead-letters", "export", group)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["body"] for line in lines] == ["order 0", "order 1", "order 2"]
    assert {"properties", "keys", "tags", "to", "attempts", "given_up_at"} <= lines[0].keys()
    assert len(desk("dead-letters", "export", group, "--output", "csv").csv) == 3
    asked = desk("dead-letters", "delete", group)
    assert asked.code == Exit.USAGE
    assert f"3 dead letters of group '{group}' would be gone" in asked.err
    assert desk("dead-letters", "delete", group, "--yes").out == f"3 dead letters of group {group} are deleted\n"
    assert desk("dead-letters", "delete", group, "--yes").out == f"group {group} has no dead letters\n"
    assert desk("dead-letters", "ls", group, "--output", "json").json == []


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["ls", "nobody"], Exit.NOT_FOUND, "group 'nobody' does not exist"),
        (["export", "nobody"], Exit.NOT_FOUND, "group 'nobody' does not exist"),
        (["delete", "nobody"], Exit.NOT_FOUND, "group 'nobody' does not exist"),
        (["resend", "nobody", "--all"], Exit.NOT_FOUND, "group 'nobody' does not exist"),
        (["resend", "nobody"], Exit.USAGE, "it is not said which dead letters to send again; give --id, --since"),
        (["resend", "nobody", "--all", "--since", "1h"], Exit.USAGE, "give --id, --since or --all, one of them"),
        (["ls", "nobody", "--since", "yesteryear"], Exit.USAGE, "'yesteryear' is no time"),
        (["show", "nobody", "7F0000010000"], Exit.NOT_FOUND, "group 'nobody' has no dead letter with the id"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(desk: Desk, words: list[str], code: Exit, why: str) -> None:
    answer = desk("dead-letters", *words)
    assert (answer.code, answer.out) == (code, "")
    (sentence,) = answer.err.splitlines()
    assert why in sentence


def test_an_id_that_is_none_of_them_is_not_found(cluster: Cluster, desk: Desk) -> None:
    group = bury(cluster, "known", 1)
    answer = desk("dead-letters", "show", group, unique("known", 9))
    assert answer.code == Exit.NOT_FOUND
    assert f"group '{group}' has no dead letter with the id" in answer.err
    with Admin(cluster.namesrv) as admin:
        (other,) = admin.messages("known")
    assert desk("dead-letters", "show", group, other.offset_id).code == Exit.NOT_FOUND, "it is no dead letter"
    odd = desk("dead-letters", "show", group, "order-1")
    assert odd.code == Exit.USAGE
    assert "'order-1' is not one; see which there are: steelyard dead-letters ls known-group" in odd.err
