"""`steelyard access`: users and policies are changed on every instance of a broker, and no secret is ever printed."""

import io
import json
import sys
from collections.abc import Iterator

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies.acl import AclUser
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import response_to
from tests.cli.fake_apache import FakeUserBroker, fake_apache

Captured = pytest.CaptureFixture[str]

_BOSS = AclUser(name="boss", password="boss-secret", kind="Super", status="enable")
_SHOP = AclUser(name="shop", password="shop-secret", kind="Normal", status="enable")


class Terminal:
    """Types commands of `steelyard access` as an administrator."""

    def __init__(self, namesrv: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
        self._namesrv, self._capsys, self._monkeypatch = namesrv, capsys, monkeypatch

    def type(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """Type a command; return how it ends, what it answers and what it says."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["access", *words, "--namesrv", self._namesrv])
        output = self._capsys.readouterr()
        assert "-secret" not in output.out + output.err, "a secret is never printed"
        return code, output.out, output.err


@pytest.fixture
def brokers() -> dict[str, FakeUserBroker]:
    return {"broker-a": FakeUserBroker(_BOSS, _SHOP), "broker-b": FakeUserBroker(_BOSS)}


@pytest.fixture
def terminal(
    brokers: dict[str, FakeUserBroker], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    with fake_apache({name: {0: server} for name, server in brokers.items()}) as namesrv:
        yield Terminal(namesrv, capsys, monkeypatch)


def test_a_user_is_made_on_every_process_and_listed_by_who_knows_it(
    terminal: Terminal, brokers: dict[str, FakeUserBroker]
) -> None:
    assert terminal.type("user", "create", "clerk", "--password-stdin", stdin="clerk-secret\n") == (
        0,
        "user clerk is created on broker-a, broker-b\n",
        "",
    )
    assert [broker.users["clerk"].password for broker in brokers.values()] == ["clerk-secret"] * 2
    assert json.loads(terminal.type("user", "ls", "--output", "json")[1]) == [
        {"user": "boss", "kind": "super", "enabled": True, "brokers": ["broker-a", "broker-b"]},
        {"user": "clerk", "kind": "normal", "enabled": True, "brokers": ["broker-a", "broker-b"]},
        {"user": "shop", "kind": "normal", "enabled": True, "brokers": ["broker-a"]},
    ]
    code, _, output = terminal.type("user", "create", "clerk", "--password", "other-word")
    assert (code, "exists already; change it with: steelyard access user set clerk" in output) == (
        ExitCode.REFUSED,
        True,
    )


def test_a_password_comes_from_a_pipe_or_is_asked_for_and_never_twice(terminal: Terminal) -> None:
    for words, stdin, why in (
        (["user", "create", "clerk"], "", "the password is missing; pipe it in, with --password-stdin"),
        (["user", "create", "clerk", "--password", "a", "--password-stdin"], "b\n", "the password is given twice"),
        (["user", "create", "clerk", "--password-stdin"], "\n", "the password is empty"),
        (["user", "set", "shop"], "", "nothing of user 'shop' would change"),
    ):
        code, out, output = terminal.type(*words, stdin=stdin)
        assert (code, out, why in output) == (ExitCode.USAGE, "", True), output


def test_a_user_that_brokers_have_in_different_ways_has_several_rows(terminal: Terminal) -> None:
    assert terminal.type("user", "set", "boss", "--disable", "--broker", "broker-b")[0] == 0
    rows = terminal.type("user", "show", "boss", "--output", "csv")[1].splitlines()
    assert rows == [
        "user,kind,enabled,brokers",
        'boss,super,true,"[""broker-a""]"',
        'boss,super,false,"[""broker-b""]"',
    ]


def test_who_is_given_all_rights_is_asked_about(terminal: Terminal, brokers: dict[str, FakeUserBroker]) -> None:
    code, _, output = terminal.type("user", "set", "shop", "--kind", "super")
    assert (code, "user shop would be able to do everything; if that is wanted, add --yes" in output) == (
        ExitCode.USAGE,
        True,
    )
    assert terminal.type("user", "set", "shop", "--kind", "super", "--broker", "broker-a", "--yes")[0] == 0
    changed = brokers["broker-a"].users["shop"]
    assert (changed.kind, changed.password, changed.status) == ("Super", "shop-secret", "enable")


def test_a_user_that_is_not_there_is_answered_with_who_was_meant(terminal: Terminal) -> None:
    for words in (["show"], ["set", "--disable"], ["delete", "--yes"]):
        code, _, output = terminal.type("user", words[0], "shp", *words[1:])
        assert (code, "Did you mean 'shop'?" in output) == (ExitCode.NOT_FOUND, True)


def test_users_are_copied_with_their_passwords_and_nobody_is_replaced_unasked(
    terminal: Terminal, brokers: dict[str, FakeUserBroker]
) -> None:
    between = ["--from", "broker-a", "--to", "broker-b"]
    code, out, output = terminal.type("user", "copy", *between, "--dry-run", "--output", "csv")
    assert (code, out, output) == (0, "user,replaced\nboss,true\nshop,false\n", "nothing was changed\n")
    assert set(brokers["broker-b"].users) == {"boss"}
    code, _, output = terminal.type("user", "copy", *between)
    assert (code, "boss would be replaced on broker-b" in output) == (ExitCode.USAGE, True)
    assert terminal.type("user", "copy", "shop", *between)[0] == 0
    assert brokers["broker-b"].users["shop"] == _SHOP
    assert terminal.type("user", "copy", "nobody", *between)[0] == ExitCode.NOT_FOUND


def test_a_rule_is_made_once_changed_and_deleted(terminal: Terminal, brokers: dict[str, FakeUserBroker]) -> None:
    on = ["--on", "topic:orders"]
    only_a = ["--broker", "broker-a"]
    assert terminal.type("policy", "create", "shop", *on, "--may", "pub,SUB", "--from-address", "10.0.0.0/8", *only_a)[
        1
    ] == ("user shop may pub, sub on Topic:orders from 10.0.0.0/8 on broker-a\n")
    assert terminal.type("policy", "create", "shop", *on, "--may", "pub", *only_a)[0] == ExitCode.REFUSED
    assert terminal.type("policy", "create", "shop", "--on", "group:night-*", "--may", "sub", "--deny", *only_a)[0] == 0
    assert terminal.type("policy", "set", "shop", *on, "--may", "all", *only_a)[0] == 0
    assert json.loads(terminal.type("policy", "show", "shop", "--output", "json")[1]) == [
        {
            "user": "shop",
            "resource": resource,
            "allows": allows,
            "actions": [action],
            "sources": [],
            "brokers": ["broker-a"],
            "kind": "Custom",
        }
        for resource, allows, action in (("Group:night-*", False, "Sub"), ("Topic:orders", True, "All"))
    ]
    assert terminal.type("policy", "ls", "--on", "orders", "--output", "csv")[1].count("\n") == 2
    assert (
        terminal.type("policy", "set", "shop", "--on", "topic:ordres", "--may", "pub", *only_a)[0] == ExitCode.NOT_FOUND
    )
    code, _, output = terminal.type("policy", "delete", "shop")
    assert (code, "would lose all of its policies: Group:night-*, Topic:orders" in output) == (ExitCode.USAGE, True)
    assert terminal.type("policy", "delete", "shop", *on)[0] == 0
    assert terminal.type("policy", "delete", "shop", *on)[0] == ExitCode.NOT_FOUND
    assert terminal.type("policy", "delete", "shop", "--yes")[0] == 0
    assert not brokers["broker-a"].rules


def test_a_rule_that_cannot_be_is_refused_before_anything_is_sent(
    terminal: Terminal, brokers: dict[str, FakeUserBroker]
) -> None:
    for on, may, why in (
        ("topc:orders", "pub", "'topc:orders' is no resource; write topic:NAME"),
        ("topic:", "pub", "is no resource"),
        ("topic:orders", "publish", "did you mean 'pub'?"),
        ("topic:orders", "fly", "give some of: all, pub"),
    ):
        code, _, output = terminal.type("policy", "create", "shop", "--on", on, "--may", may)
        assert (code, why in output) == (ExitCode.USAGE, True), output
    assert not brokers["broker-a"].asked


def test_rules_are_copied_to_a_broker_that_knows_the_user(
    terminal: Terminal, brokers: dict[str, FakeUserBroker]
) -> None:
    between = ["--from", "broker-a", "--to", "broker-b"]
    assert terminal.type("policy", "create", "shop", "--on", "*", "--may", "get", "--broker", "broker-a")[0] == 0
    assert terminal.type("policy", "copy", *between)[0] == ExitCode.NOT_FOUND
    assert terminal.type("user", "copy", "shop", *between)[0] == 0
    assert terminal.type("policy", "copy", *between, "--dry-run")[1].split() == [
        "user",
        "rules",
        "replaced",
        "shop",
        "1",
        "no",
    ]
    assert terminal.type("policy", "copy", *between)[0] == 0
    assert brokers["broker-b"].rules == brokers["broker-a"].rules


def test_a_deleted_user_takes_its_rules_along(terminal: Terminal, brokers: dict[str, FakeUserBroker]) -> None:
    assert (
        terminal.type("policy", "create", "shop", "--on", "topic:orders", "--may", "pub", "--broker", "broker-a")[0]
        == 0
    )
    code, _, output = terminal.type("user", "delete", "shop")
    assert (code, "user shop would be deleted, with its policies on Topic:orders" in output) == (ExitCode.USAGE, True)
    assert terminal.type("user", "delete", "shop", "--yes", "--json")[1] == (
        '{"user":"shop","brokers":["broker-a","broker-b"]}\n'
    )
    assert (brokers["broker-a"].rules, "shop" in brokers["broker-a"].users) == ({}, False)


def test_what_fails_on_one_broker_is_reported_with_where_it_is_done(
    terminal: Terminal, brokers: dict[str, FakeUserBroker], caplog: pytest.LogCaptureFixture
) -> None:
    brokers["broker-b"].answers[Code.AUTH_CREATE_USER] = lambda asked: response_to(asked, 1, remark="no room")
    code, out, output = terminal.type("user", "create", "clerk", "--password", "some-word")
    assert (code, out) == (ExitCode.FAILED, "")
    assert "the change was made on broker-a" in caplog.text
    assert "broker-b answered 1: it failed (no room)" in output


def test_a_broker_that_is_set_up_without_users_reports_it(
    terminal: Terminal, brokers: dict[str, FakeUserBroker]
) -> None:
    for broker in brokers.values():
        broker.settings["authenticationMetadataProvider"] = ""
        broker.answers[Code.AUTH_LIST_USER] = lambda asked: response_to(asked, 1, remark="An system error occurred")
    code, _, output = terminal.type("user", "ls")
    assert (code, "broker-a keeps no users: access control is off, and every client is accepted" in output) == (4, True)


def test_our_brokers_say_that_they_keep_no_users(
    cluster: Cluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(cluster.namesrv, capsys, monkeypatch)
    for words, why in (
        (["user", "ls"], "broker-0 keeps no users; Apache RocketMQ does from 5.3 on"),
        (["policy", "ls"], "broker-0 keeps no users"),
        (["user", "create", "x", "--password", "y"], "broker-0 keeps no users"),
    ):
        code, out, output = terminal.type(*words)
        assert (code, out, why in output) == (ExitCode.REFUSED, "", True), output
