import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.version import __version__
from tests.golden_allocation import golden_allocations

QUEUES = [["orders", broker, number] for broker in ("broker-a", "broker-b") for number in range(4)]
MEMBERS = ["192.168.0.1@100#1", "192.168.0.1@101#2", "192.168.0.2@100#3"]
GROUP = {"group": "billing", "queues": QUEUES, "members": MEMBERS}


def written(folder: Path, value: object) -> str:
    path = folder / "group.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def planned(capsys: pytest.CaptureFixture[str], folder: Path, value: object, strategy: str) -> dict[str, object]:
    assert main(["plan", "--input", written(folder, value), "--strategy", strategy, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("steelyard: ")
    return output.err


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"steelyard {__version__}\n"


@pytest.mark.parametrize(("asked", "verb"), [([], "plan"), (["store"], "verify")])
def test_without_a_command_the_help_is_shown(asked: list[str], verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked) == 0
    output = capsys.readouterr()
    assert verb in output.out
    assert output.err == ""


def test_a_plan_is_printed_as_json_with_what_moved(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    group = {
        "group": "g",
        "queues": [["t", "a", 0], ["t", "a", 1], ["t", "a", 2], ["t", "a", 3]],
        "members": ["c3", "c1", "c2"],
        "previous": {"c1": [["t", "a", 0], ["t", "a", 1]], "c2": [["t", "a", 2], ["t", "a", 3]]},
    }
    assert planned(capsys, tmp_path, group, "STICKY") == {
        "strategy": "STICKY",
        "assignment": {"c1": [["t", "a", 0], ["t", "a", 1]], "c2": [["t", "a", 2]], "c3": [["t", "a", 3]]},
        "moved": 1,
        "least": 1,
        "max": 2,
        "min": 1,
    }
    average = planned(capsys, tmp_path, group, "average")
    assert (average["strategy"], average["moved"], average["least"]) == ("AVG", 1, 1)


def test_the_allocations_of_the_specification(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    expected = {
        "AVG": ("a0 a1 a2", "a3 b0 b1", "b2 b3"),
        "AVG_BY_CIRCLE": ("a0 a3 b2", "a1 b0 b3", "a2 b1"),
        "CONSISTENT_HASH": ("a0 b0", "a2 a3 b1 b2 b3", "a1"),
    }
    queues = [["TopicTest", broker, number] for _, broker, number in QUEUES]
    for strategy, shares in expected.items():
        assignment = planned(capsys, tmp_path, GROUP | {"queues": queues}, strategy)["assignment"]
        assert isinstance(assignment, dict)
        short = [" ".join(f"{broker[-1]}{number}" for _, broker, number in assignment[member]) for member in MEMBERS]
        assert tuple(short) == shares


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH_10", "CONSISTENT_HASH_100"])
def test_the_command_line_gives_the_answers_of_the_java_classes(
    strategy: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, _, nodes = strategy.partition("HASH_")
    for case in golden_allocations()[:20]:
        group: dict[str, object] = {"group": "g", "queues": case.queues, "members": case.members}
        if nodes:
            group["config"] = {"virtual_nodes": int(nodes)}
        assignment = planned(capsys, tmp_path, group, f"{name}HASH" if nodes else name)["assignment"]
        assert isinstance(assignment, dict)
        for member, places in case.shares[strategy].items():
            assert sorted(assignment[member]) == [list(case.queues[place]) for place in places]


def test_machine_rooms_come_from_the_configuration_and_the_brokers_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for case in golden_allocations()[:20]:
        group = {"group": "g", "queues": case.queues, "members": case.members}
        rooms = {"rooms": ["room0", "room1"]}
        nearby = {"member_rooms": {member: member.split("@")[0] for member in case.members}}
        for strategy, config, golden in (
            ("MACHINE_ROOM", rooms, "MACHINE_ROOM{room0,room1}"),
            ("MACHINE_ROOM_NEARBY", nearby, "MACHINE_ROOM_NEARBY-AVG"),
        ):
            assignment = planned(capsys, tmp_path, group | {"config": config}, strategy)["assignment"]
            assert isinstance(assignment, dict)
            for member, places in case.shares[golden].items():
                assert sorted(assignment[member]) == sorted(list(case.queues[place]) for place in places)


def test_a_fixed_list_is_given_as_configured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = {"group": "g", "queues": QUEUES, "members": ["c1"], "config": {"queues": QUEUES[2:4]}}
    assert planned(capsys, tmp_path, one, "CONFIG")["assignment"] == {"c1": QUEUES[2:4]}


def test_a_group_can_be_read_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(json.dumps(GROUP).encode())))
    assert main(["plan", "--input", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "AVG"


def test_a_closed_stdin_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "stdin is closed" in refused(capsys, "plan", "--input", "-")


def test_null_says_as_much_as_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nulls = GROUP | {"previous": None, "config": None}
    assert planned(capsys, tmp_path, nulls, "sticky") == planned(capsys, tmp_path, GROUP, "sticky")


def test_people_get_the_plan_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    group = GROUP | {"previous": {"old": QUEUES}}
    assert main(["plan", "--input", written(tmp_path, group), "--strategy", "sticky"]) == 0
    out = capsys.readouterr().out
    assert "STICKY for group billing" in out
    assert "orders@broker-a:0 goes from old to 192.168.0.1@100#1: old left" in out


def test_worked_examples_are_drawn_for_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--queues", "16", "--members", "1..3"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    average = [row[1:] for row in rows if row[:1] == ["AVG"]]
    assert average == [["1" * 16, "16"], ["1" * 8 + "2" * 8, "8/8"], ["1" * 6 + "2" * 5 + "3" * 5, "6/5/5"]]
    for name in "AVG_BY_CIRCLE CONFIG MACHINE_ROOM MACHINE_ROOM_NEARBY-AVG CONSISTENT_HASH STICKY".split():
        assert sum(row[:1] == [name] for row in rows) == 3


def test_worked_examples_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--queues", "7", "--members", "2,3", "--strategy", "average", "--json"]) == 0
    plans = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(len(plan["assignment"]), plan["max"], plan["min"]) for plan in plans] == [(2, 4, 3), (3, 3, 2)]


def test_a_strategy_of_ones_own_is_loaded_by_its_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_greedy_rule.py").write_text(
        "def first_takes_all(group, member, queues, members):\n    return queues if member == members[0] else []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    answer = planned(capsys, tmp_path, GROUP, "my_greedy_rule:first_takes_all")
    assert (answer["max"], answer["min"]) == (8, 0)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("has_a_typo", "def rule(:", "SyntaxError"),
        ("fails_at_once", "1 / 0", "ZeroDivisionError"),
        ("is_a_script", "raise SystemExit(3)", "SystemExit: 3"),
        (".not_absolute", "", "TypeError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(
    name: str, text: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert says in refused(capsys, "plan", "--input", written(tmp_path, GROUP), "--strategy", f"{name}:rule")


def test_every_mark_of_a_drawing_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_first_two_rule.py").write_text("def rule(group, member, queues, members):\n    return queues[:2]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["plan", "--queues", "4", "--members", "10", "--strategy", "my_first_two_rule:rule"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for part in ("!!..", "9 is c09, A is c10", "! has several owners", ". has no owner"):
        assert part in output


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "is not a plan's input"),
        ("{", "is not a plan's input"),
        ("[]", "Expected `object`"),
        ("\udcff", "is not a plan's input"),
        ({"group": "g", "queues": [], "members": ["c"]}, "no queues"),
        ({"group": "g", "queues": QUEUES, "members": []}, "no members"),
        ({"group": "g", "members": ["c"]}, "missing required field `queues`"),
        (GROUP | {"qeues": []}, "unknown field `qeues`"),
        (GROUP | {"queues": [["t", "b"]]}, "$.queues[0]"),
        (GROUP | {"queues": [["t", "b", "0"]]}, "$.queues[0]"),
        (GROUP | {"queues": [["t", "b", -1]]}, "an id from 0"),
        (GROUP | {"queues": [["", "b", 1]]}, "has the queue"),
        (GROUP | {"members": [3]}, "$.members[0]"),
        (GROUP | {"members": [""]}, "empty"),
        (GROUP | {"previous": {"c1": [["t", "b", -4]]}}, "an id from 0"),
        (GROUP | {"config": {"virtual_nodes": "ten"}}, "wrong at virtual_nodes"),
        (GROUP | {"config": {"nodes": 3}}, "unknown field `nodes`"),
        (GROUP | {"config": {"queues": [["t", "b", -4]]}}, "an id from 0"),
        (GROUP | {"config": {"queues": {"c1": [["t", "", 4]]}}}, "has the queue"),
        ("[" * 100_000, "is not a plan's input"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    value: object, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "group.json"
    path.write_bytes(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else json.dumps(value).encode())
    output = refused(capsys, "plan", "--input", str(path), "--strategy", "average", "--json")
    assert says.casefold() in output.casefold()


@pytest.mark.parametrize(
    ("strategy", "config", "says"),
    [
        ("MACHINE_ROOM", {}, "MACHINE_ROOM needs rooms"),
        ("MACHINE_ROOM_NEARBY", {}, "needs member_rooms"),
        ("CONFIG", {}, "CONFIG needs queues"),
        ("STICKY", {"weights": {"till-9": 2}}, "weights has entries for till-9, which match no member"),
        ("CONSISTENT_HASH", {"virtual_nodes": -1}, "-1"),
        ("STICKI", {}, "did you mean sticky?"),
        ("no_such_module:rule", {}, "cannot be loaded"),
        ("json:dumpz", {}, "cannot be loaded"),
        ("json:__name__", {}, "is a str"),
        (":", {}, "cannot be loaded"),
        ("", {}, "is called ''"),
    ],
)
def test_a_strategy_that_cannot_be_made_is_one_line_and_exit_code_two(
    strategy: str, config: dict[str, object], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = written(tmp_path, GROUP | {"config": config})
    assert says in refused(capsys, "plan", "--input", path, "--strategy", strategy, "--json")


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "--queues", "4"],
        ["plan", "--members", "4"],
        ["plan", "--queues", "0", "--members", "1"],
        ["plan", "--queues", "-3", "--members", "1"],
        ["plan", "--queues", "99999", "--members", "1"],
        ["plan", "--queues", "4", "--members", "3..1"],
        ["plan", "--queues", "4", "--members", "0"],
        ["plan", "--queues", "4", "--members", "1..x"],
        ["plan", "--queues", "4", "--members", f"1..{10**30}"],
        ["plan", "--queues", "four", "--members", "1"],
        ["plan", "--input", "/does/not/exist"],
        ["plan", "--input", "/"],
        ["plan", "--input", "x.json", "--queues", "4"],
        ["plan", "--unknown"],
        ["plam"],
    ],
)
def test_a_bad_question_is_one_line_and_exit_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, *arguments)
