"""Answers come as a table for people, and as JSON, lines of JSON or CSV for programs, with nothing else on stdout."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.frame.output import Column, Format, Out, plain

_COLUMNS = [Column("name"), Column("size", "bytes", right=True), Column("at", show=lambda at: f"{at:%H:%M}")]
_AT = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
_ROWS: list[dict[str, object]] = [
    {"name": "orders", "size": 12, "at": _AT, "more": [1, 2]},
    {"name": "a\x1b[2J,b", "size": None, "at": None, "more": []},
]


def test_a_table_has_its_columns_and_what_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    Out().rows(_COLUMNS, _ROWS)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["name", "bytes", "at"], ["orders", "12", "08:30"], [r"a\x1b[2J,b", "-", "-"]]


def test_people_are_told_that_there_is_nothing_and_programs_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    for form, out in ((Format.TABLE, "name  bytes  at\n"), (Format.JSON, "[]\n"), (Format.JSONL, "")):
        Out(form).rows(_COLUMNS, [], none="there is no topic yet")
        told = capsys.readouterr()
        assert (told.out, told.err) == (out, "there is no topic yet\n" if form is Format.TABLE else "")


def test_json_is_one_array_and_lines_of_json_are_an_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    Out(Format.JSON).rows(_COLUMNS, _ROWS)
    together = json.loads(capsys.readouterr().out)
    Out(Format.JSONL).rows(_COLUMNS, _ROWS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == together
    assert together[0] == {"name": "orders", "size": 12, "at": "2026-11-01T08:30:00Z", "more": [1, 2]}
    Out(Format.JSON).rows(_COLUMNS, [])
    assert capsys.readouterr().out == "[]\n"


def test_a_csv_has_a_header_and_the_columns_and_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    Out(Format.CSV).rows([*_COLUMNS, Column("more")], _ROWS)
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert read == [
        {"name": "orders", "size": "12", "at": "2026-11-01T08:30:00Z", "more": "[1,2]"},
        {"name": "a\x1b[2J,b", "size": "", "at": "", "more": "[]"},
    ]


def test_one_thing_is_lines_or_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"name": "orders", "is_full": True, "share": 0.5, "tags": ["a", "b"], "none": None, "by": {"x": 1}}
    Out().one(values)
    assert capsys.readouterr().out.splitlines() == [
        "name     orders",
        "is full  yes",
        "share    0.5",
        "tags     a, b",
        "none     -",
        "by       x=1",
    ]
    Out(Format.JSON).one(values)
    assert json.loads(capsys.readouterr().out) == values


def test_what_was_done_is_a_sentence_or_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    Out().done("topic orders is gone", topic="orders", messages=3)
    assert capsys.readouterr().out == "topic orders is gone\n"
    Out(Format.JSONL).done("topic orders is gone", topic="orders", messages=3)
    assert json.loads(capsys.readouterr().out) == {"topic": "orders", "messages": 3}


_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.text(),
    st.binary(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(timedelta(0), timedelta(days=9_999)),
)
_VALUES = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(_VALUES)
def test_every_value_becomes_json(value: object) -> None:
    made = plain(value)
    assert json.loads(json.dumps(made)) == made


def test_a_terminal_that_is_too_narrow_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [Column("broker"), Column("address"), *(Column(f"count_{number}", right=True) for number in range(6))]
    row: dict[str, object] = {"broker": "x" * 127, "address": "255.255.255.255:65535"}
    row |= {f"count_{number}": 1_000_000 + number for number in range(6)}
    for width in ("80", "40", "10"):
        monkeypatch.setenv("COLUMNS", width)
        Out().rows(columns, [row])
        said = capsys.readouterr().out
        assert all(str(each) in said for key, each in row.items() if key != "broker")
        assert said.count("x") == 127
        assert "…" not in said


def test_a_csv_on_a_terminal_is_no_command_to_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_seen, shown in ((False, "\x1b[2J"), (True, "\\x1b[2J")):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_seen=is_seen: is_seen)
        Out(Format.CSV).rows([Column("name"), Column("size")], [{"name": "\x1b[2J", "size": 7}])
        assert capsys.readouterr().out == f"name,size\n{shown},7\n"
