"""`steelyard access`: users and accounts are told to every process of a broker, and no secret is ever printed."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
from tests.cli.stand_in import AccountBroker, Server, UserBroker, apache

from steelyard.cli.frame.exits import Exit
from steelyard.cli.main import main
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies.access import User
from steelyard.wire.bodies.accounts import Account
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import answer_to

Captured = pytest.CaptureFixture[str]

_BOSS = User(name="boss", password="boss-secret", kind="Super", status="enable")
_SHOP = User(name="shop", password="shop-secret", kind="Normal", status="enable")


class Desk:
    """A terminal at which an administrator sits."""

    def __init__(self, namesrv: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
        self._namesrv, self._capsys, self._monkeypatch = namesrv, capsys, monkeypatch

    def type(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """Type a command; return how it ends, what it answers and what it says."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["access", *words, "--namesrv", self._namesrv])
        said = self._capsys.readouterr()
        assert "-secret" not in said.out + said.err.replace("--secret-stdin", ""), "a secret is never printed"
        return code, said.out, said.err


@pytest.fixture
def brokers() -> dict[str, UserBroker]:
    return {"broker-a": UserBroker(_BOSS, _SHOP), "broker-b": UserBroker(_BOSS)}


@pytest.fixture
def desk(brokers: dict[str, UserBroker], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with apache({name: {0: server} for name, server in brokers.items()}) as namesrv:
        yield Desk(namesrv, capsys, monkeypatch)


def test_a_user_is_made_on_every_process_and_listed_by_who_knows_it(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    assert desk.type("user", "create", "clerk", "--password-stdin", stdin="clerk-secret\n") == (
        0,
        "user clerk is made on broker-a, broker-b\n",
        "",
    )
    assert [broker.users["clerk"].password for broker in brokers.values()] == ["clerk-secret"] * 2
    assert json.loads(desk.type("user", "ls", "--output", "json")[1]) == [
        {"user": "boss", "kind": "super", "enabled": True, "brokers": ["broker-a", "broker-b"]},
        {"user": "clerk", "kind": "normal", "enabled": True, "brokers": ["broker-a", "broker-b"]},
        {"user": "shop", "kind": "normal", "enabled": True, "brokers": ["broker-a"]},
    ]
    code, _, said = desk.type("user", "create", "clerk", "--password", "other-word")
    assert (code, "exists already; change it with: steelyard access user set clerk" in said) == (Exit.REFUSED, True)


def test_a_password_comes_from_a_pipe_or_is_asked_for_and_never_twice(desk: Desk) -> None:
    for words, stdin, why in (
        (["user", "create", "clerk"], "", "the password is missing; pipe it in and say --password-stdin"),
        (["user", "create", "clerk", "--password", "a", "--password-stdin"], "b\n", "the password is given twice"),
        (["user", "create", "clerk", "--password-stdin"], "\n", "the password is empty"),
        (["user", "set", "shop"], "", "nothing of user 'shop' is to change"),
    ):
        code, out, said = desk.type(*words, stdin=stdin)
        assert (code, out, why in said) == (Exit.USAGE, "", True), said


def test_a_user_that_brokers_have_in_different_ways_has_several_rows(desk: Desk) -> None:
    assert desk.type("user", "set", "boss", "--disable", "--broker", "broker-b")[0] == 0
    rows = desk.type("user", "show", "boss", "--output", "csv")[1].splitlines()
    assert rows == [
        "user,kind,enabled,brokers",
        'boss,super,true,"[""broker-a""]"',
        'boss,super,false,"[""broker-b""]"',
    ]


def test_who_is_given_all_rights_is_asked_about(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    code, _, said = desk.type("user", "set", "shop", "--kind", "super")
    assert (code, "user shop would be able to do everything; if that is wanted, say --yes" in said) == (
        Exit.USAGE,
        True,
    )
    assert desk.type("user", "set", "shop", "--kind", "super", "--broker", "broker-a", "--yes")[0] == 0
    changed = brokers["broker-a"].users["shop"]
    assert (changed.kind, changed.password, changed.status) == ("Super", "shop-secret", "enable")


def test_a_user_that_is_not_there_is_answered_with_who_was_meant(desk: Desk) -> None:
    for words in (["show"], ["set", "--disable"], ["delete", "--yes"]):
        code, _, said = desk.type("user", words[0], "shp", *words[1:])
        assert (code, "Did you mean 'shop'?" in said) == (Exit.NOT_FOUND, True)


def test_users_are_copied_with_their_passwords_and_nobody_is_replaced_unasked(
    desk: Desk, brokers: dict[str, UserBroker]
) -> None:
    between = ["--from", "broker-a", "--to", "broker-b"]
    code, out, said = desk.type("user", "copy", *between, "--dry-run", "--output", "csv")
    assert (code, out, said) == (0, "user,replaced\nboss,true\nshop,false\n", "nothing was changed\n")
    assert set(brokers["broker-b"].users) == {"boss"}
    code, _, said = desk.type("user", "copy", *between)
    assert (code, "boss would be replaced on broker-b" in said) == (Exit.USAGE, True)
    assert desk.type("user", "copy", "shop", *between)[0] == 0
    assert brokers["broker-b"].users["shop"] == _SHOP
    assert desk.type("user", "copy", "nobody", *between)[0] == Exit.NOT_FOUND


def test_a_rule_is_made_once_changed_and_deleted(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    on = ["--on", "topic:orders"]
    only_a = ["--broker", "broker-a"]
    assert desk.type("policy", "create", "shop", *on, "--may", "pub,SUB", "--from-address", "10.0.0.0/8", *only_a)[
        1
    ] == ("user shop may pub, sub on Topic:orders from 10.0.0.0/8, says a rule on broker-a\n")
    assert desk.type("policy", "create", "shop", *on, "--may", "pub", *only_a)[0] == Exit.REFUSED
    assert desk.type("policy", "create", "shop", "--on", "group:night-*", "--may", "sub", "--deny", *only_a)[0] == 0
    assert desk.type("policy", "set", "shop", *on, "--may", "all", *only_a)[0] == 0
    assert json.loads(desk.type("policy", "show", "shop", "--output", "json")[1]) == [
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
    assert desk.type("policy", "ls", "--on", "orders", "--output", "csv")[1].count("\n") == 2
    assert desk.type("policy", "set", "shop", "--on", "topic:ordres", "--may", "pub", *only_a)[0] == Exit.NOT_FOUND
    code, _, said = desk.type("policy", "delete", "shop")
    assert (code, "would lose all of its rules: Group:night-*, Topic:orders" in said) == (Exit.USAGE, True)
    assert desk.type("policy", "delete", "shop", *on)[0] == 0
    assert desk.type("policy", "delete", "shop", *on)[0] == Exit.NOT_FOUND
    assert desk.type("policy", "delete", "shop", "--yes")[0] == 0
    assert not brokers["broker-a"].rules


def test_a_rule_that_cannot_be_is_refused_before_anything_is_sent(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    for on, may, why in (
        ("topc:orders", "pub", "'topc:orders' is no resource; write topic:NAME"),
        ("topic:", "pub", "is no resource"),
        ("topic:orders", "publish", "did you mean 'pub'?"),
        ("topic:orders", "fly", "give some of: all, pub"),
    ):
        code, _, said = desk.type("policy", "create", "shop", "--on", on, "--may", may)
        assert (code, why in said) == (Exit.USAGE, True), said
    assert not brokers["broker-a"].asked


def test_rules_are_copied_to_a_broker_that_knows_the_user(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    between = ["--from", "broker-a", "--to", "broker-b"]
    assert desk.type("policy", "create", "shop", "--on", "*", "--may", "get", "--broker", "broker-a")[0] == 0
    assert desk.type("policy", "copy", *between)[0] == Exit.NOT_FOUND
    assert desk.type("user", "copy", "shop", *between)[0] == 0
    assert desk.type("policy", "copy", *between, "--dry-run")[1].split() == [
        "user",
        "rules",
        "replaced",
        "shop",
        "1",
        "no",
    ]
    assert desk.type("policy", "copy", *between)[0] == 0
    assert brokers["broker-b"].rules == brokers["broker-a"].rules


def test_a_deleted_user_takes_its_rules_along(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    assert desk.type("policy", "create", "shop", "--on", "topic:orders", "--may", "pub", "--broker", "broker-a")[0] == 0
    code, _, said = desk.type("user", "delete", "shop")
    assert (code, "user shop would be gone, with its rules on Topic:orders" in said) == (Exit.USAGE, True)
    assert desk.type("user", "delete", "shop", "--yes", "--json")[1] == (
        '{"user":"shop","brokers":["broker-a","broker-b"]}\n'
    )
    assert (brokers["broker-a"].rules, "shop" in brokers["broker-a"].users) == ({}, False)


def test_what_fails_on_one_broker_is_told_with_where_it_is_done(
    desk: Desk, brokers: dict[str, UserBroker], caplog: pytest.LogCaptureFixture
) -> None:
    brokers["broker-b"].answers[Code.AUTH_CREATE_USER] = lambda asked: answer_to(asked, 1, remark="no room")
    code, out, said = desk.type("user", "create", "clerk", "--password", "some-word")
    assert (code, out) == (Exit.FAILED, "")
    assert "it is done on broker-a all the same" in caplog.text
    assert "broker-b answered 1: it failed (no room)" in said


def test_a_broker_that_is_set_up_without_users_says_so(desk: Desk, brokers: dict[str, UserBroker]) -> None:
    for broker in brokers.values():
        broker.settings["authenticationMetadataProvider"] = ""
        broker.answers[Code.AUTH_LIST_USER] = lambda asked: answer_to(asked, 1, remark="An system error occurred")
    code, _, said = desk.type("user", "ls")
    assert (code, "broker-a keeps no users: it is set up without them, and lets everybody in" in said) == (4, True)


# -- accounts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def old() -> AccountBroker:
    return AccountBroker(
        Account(access_key="the-boss", secret_key="boss-secret", admin=True),
        Account(access_key="the-shop", secret_key="shop-secret", topics=("orders=PUB",), default_topic="DENY"),
    )


@pytest.fixture
def old_desk(old: AccountBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with apache({"broker-a": {0: old}}) as namesrv:
        yield Desk(namesrv, capsys, monkeypatch)


def test_what_is_not_named_of_an_account_stays(old_desk: Desk, old: AccountBroker) -> None:
    assert old_desk.type("account", "set", "the-boss", "--group", "billing=SUB") == (
        0,
        "account the-boss is changed on broker-a\n",
        "",
    )
    assert old.accounts["the-boss"] == Account(
        access_key="the-boss", secret_key="boss-secret", admin=True, groups=("billing=SUB",)
    )
    assert old_desk.type("account", "set", "the-shop", "--from-address", "10.0.0.*", "--no-admin")[0] == 0
    changed = old.accounts["the-shop"]
    assert (changed.topics, changed.default_topic, changed.addresses) == (("orders=PUB",), "DENY", "10.0.0.*")


def test_a_new_account_needs_a_secret_of_some_length(old_desk: Desk, old: AccountBroker) -> None:
    for words, stdin, why in (
        (["the-clerk"], "", "account 'the-clerk' is new and has no secret"),
        (["the-clerk", "--secret-stdin"], "short\n", "brokers want at least 7 characters of each"),
        (["clerk", "--secret-stdin"], "long enough\n", "brokers want at least 7 characters of each"),
        (["the-shop", "--admin"], "", "account the-shop would be able to do everything"),
    ):
        code, _, said = old_desk.type("account", "set", *words, stdin=stdin)
        assert (code, why in said) == (Exit.USAGE, True), said
    assert old_desk.type("account", "set", "the-clerk", "--secret-stdin", stdin="long enough\n")[1] == (
        "account the-clerk is made on broker-a\n"
    )
    assert old.accounts["the-clerk"].secret_key == "long enough"


def test_what_a_broker_refuses_of_an_account_is_one_line(old_desk: Desk) -> None:
    code, _, said = old_desk.type("account", "set", "the-shop", "--topic", "orders=READ")
    assert (code, said) == (
        Exit.REFUSED,
        "steelyard: broker-a refuses: Parse resource permission error. The expected ones are SUB or PUB.\n",
    )


def test_accounts_are_listed_shown_and_deleted(old_desk: Desk, old: AccountBroker) -> None:
    assert [row["account"] for row in json.loads(old_desk.type("account", "ls", "--output", "json")[1])] == [
        "the-boss",
        "the-shop",
    ]
    assert old_desk.type("account", "show", "the-shop")[1].splitlines()[2].split() == ["topic", "default", "DENY"]
    code, _, said = old_desk.type("account", "show", "the-shp")
    assert (code, "Did you mean 'the-shop'?" in said) == (Exit.NOT_FOUND, True)
    assert old_desk.type("account", "delete", "the-shop")[0] == Exit.USAGE
    assert old_desk.type("account", "delete", "the-shop", "--yes")[0] == 0
    assert set(old.accounts) == {"the-boss"}


def test_addresses_that_need_no_account_are_replaced_as_a_whole(old_desk: Desk, old: AccountBroker) -> None:
    code, _, said = old_desk.type("addresses", "set", "10.0.0.*")
    assert (code, "whoever comes from 10.0.0.* would need no account any more" in said) == (Exit.USAGE, True)
    assert old_desk.type("addresses", "set", "10.0.0.*", "192.168.0.7", "--yes")[0] == 0
    assert json.loads(old_desk.type("addresses", "show", "--json")[1]) == {
        "broker": "broker-a",
        "addresses": ["10.0.0.*", "192.168.0.7"],
    }
    assert old_desk.type("addresses", "set", "10.0.0.*")[0] == 0, "fewer is no danger"
    assert old_desk.type("addresses", "set")[0] == Exit.USAGE
    assert old_desk.type("addresses", "set", "--none")[1] == "everybody needs an account on broker-a\n"
    assert old.addresses == ()
    versions = old_desk.type("versions", "--output", "csv")[1].splitlines()
    assert versions[1] == f"broker-a,{old.path},5,2026-11-16T13:18:15.846Z"


def test_a_broker_that_would_never_answer_is_not_asked(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    without = Server(settings={"aclEnable": "false"})
    with apache({"broker-a": {0: without}}) as namesrv:
        code, _, said = Desk(namesrv, capsys, monkeypatch).type("account", "ls")
    assert (code, "broker-a keeps no accounts: it is set up without them" in said) == (Exit.REFUSED, True)
    assert Code.GET_BROKER_CLUSTER_ACL_CONFIG not in without.asked


def test_our_brokers_say_that_they_have_neither(
    cluster: Cluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(cluster.namesrv, capsys, monkeypatch)
    for words, why in (
        (["user", "ls"], "broker-0 keeps no users; Apache RocketMQ does from 5.3 on"),
        (["policy", "ls"], "broker-0 keeps no users"),
        (["user", "create", "x", "--password", "y"], "broker-0 keeps no users"),
        (["account", "ls"], "broker-0 keeps no accounts; Apache RocketMQ does up to 5.3.2"),
        (["addresses", "show"], "broker-0 keeps no accounts"),
        (["versions"], "broker-0 keeps no accounts"),
    ):
        code, out, said = desk.type(*words)
        assert (code, out, why in said) == (Exit.REFUSED, "", True), said
