"""Answers come as a table for people, and as JSON, lines of JSON or CSV for programs, with nothing else on stdout."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.shared.output import Output, OutputFormat, TableColumn, to_json_value

_COLUMNS = [
    TableColumn("name"),
    TableColumn("size", "bytes", right=True),
    TableColumn("at", show=lambda at: f"{at:%H:%M}"),
]
_AT = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
_ROWS: list[dict[str, object]] = [
    {"name": "orders", "size": 12, "at": _AT, "more": [1, 2]},
    {"name": "a\x1b[2J,b", "size": None, "at": None, "more": []},
]


def test_a_table_has_its_columns_and_what_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    Output().print_rows(_COLUMNS, _ROWS)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["name", "bytes", "at"], ["orders", "12", "08:30"], [r"a\x1b[2J,b", "-", "-"]]


def test_people_see_that_there_is_nothing_and_programs_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    for form, out in ((OutputFormat.TABLE, "name  bytes  at\n"), (OutputFormat.JSON, "[]\n"), (OutputFormat.JSONL, "")):
        Output(form).print_rows(_COLUMNS, [], if_empty="there is no topic yet")
        reported = capsys.readouterr()
        assert (reported.out, reported.err) == (out, "there is no topic yet\n" if form is OutputFormat.TABLE else "")


def test_json_is_one_array_and_lines_of_json_are_an_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    Output(OutputFormat.JSON).print_rows(_COLUMNS, _ROWS)
    together = json.loads(capsys.readouterr().out)
    Output(OutputFormat.JSONL).print_rows(_COLUMNS, _ROWS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == together
    assert together[0] == {"name": "orders", "size": 12, "at": "2026-11-01T08:30:00Z", "more": [1, 2]}
    Output(OutputFormat.JSON).print_rows(_COLUMNS, [])
    assert capsys.readouterr().out == "[]\n"


def test_a_csv_has_a_header_and_the_columns_and_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    Output(OutputFormat.CSV).print_rows([*_COLUMNS, TableColumn("more")], _ROWS)
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert read == [
        {"name": "orders", "size": "12", "at": "2026-11-01T08:30:00Z", "more": "[1,2]"},
        {"name": "a\x1b[2J,b", "size": "", "at": "", "more": "[]"},
    ]


def test_one_thing_is_lines_or_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"name": "orders", "is_full": True, "share": 0.5, "tags": ["a", "b"], "none": None, "by": {"x": 1}}
    Output().print_object(values)
    assert capsys.readouterr().out.splitlines() == [
        "name     orders",
        "is full  yes",
        "share    0.5",
        "tags     a, b",
        "none     -",
        "by       x=1",
    ]
    Output(OutputFormat.JSON).print_object(values)
    assert json.loads(capsys.readouterr().out) == values


def test_what_was_done_is_a_sentence_or_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    Output().print_result("topic orders is gone", topic="orders", messages=3)
    assert capsys.readouterr().out == "topic orders is gone\n"
    Output(OutputFormat.JSONL).print_result("topic orders is gone", topic="orders", messages=3)
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
    made = to_json_value(value)
    assert json.loads(json.dumps(made)) == made


def test_a_terminal_that_is_too_narrow_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [
        TableColumn("broker"),
        TableColumn("address"),
        *(TableColumn(f"count_{number}", right=True) for number in range(6)),
    ]
    row: dict[str, object] = {"broker": "x" * 127, "address": "255.255.255.255:65535"}
    row |= {f"count_{number}": 1_000_000 + number for number in range(6)}
    for width in ("80", "40", "10"):
        monkeypatch.setenv("COLUMNS", width)
        Output().print_rows(columns, [row])
        printed = capsys.readouterr().out
        assert all(str(each) in printed for key, each in row.items() if key != "broker")
        assert printed.count("x") == 127
        assert "…" not in printed


def test_a_csv_on_a_terminal_is_no_command_to_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_seen, shown in ((False, "\x1b[2J"), (True, "\\x1b[2J")):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_seen=is_seen: is_seen)
        Output(OutputFormat.CSV).print_rows(
            [TableColumn("name"), TableColumn("size")], [{"name": "\x1b[2J", "size": 7}]
        )
        assert capsys.readouterr().out == f"name,size\n{shown},7\n"
