"""Output of commands: a table for people; JSON, JSON lines or CSV for programs.

Only results go to stdout. A list is one JSON array, one object a line, or CSV with a header; a single thing is one
object. Programs get plain values (numbers, times in ISO 8601), people get formatted ones.
"""

import csv
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from io import TextIOWrapper
from typing import Any, NamedTuple

import msgspec

from steelyard.cli.shared.terminal import make_console, print_note, printable_json
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.model.formatting import printable


class OutputFormat(StrEnum):
    """The value of ``--output``."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class TableColumn(NamedTuple):
    """A column of a table: the key of its values, its heading, and how it is formatted for people."""

    key: str
    heading: str = ""
    right: bool = False
    show: Callable[[Any], str] | None = None


def columns(*specs: str, **show: Callable[[Any], str]) -> list[TableColumn]:
    """Return columns, each written as ``key`` or ``key:heading``; a ``#`` in front aligns it to the right.

    ``show`` gives functions that format the values of columns for people.

    >>> columns("group", "#lag:waiting", lag=str)[1]
    TableColumn(key='lag', heading='waiting', right=True, show=<class 'str'>)
    """
    made = []
    for spec in specs:
        key, _, heading = spec.removeprefix("#").partition(":")
        made.append(TableColumn(key, heading, spec.startswith("#"), show.get(key)))
    return made


def fields_of(value: Any, *names: str, **more: object) -> dict[str, object]:
    """Return the fields of a dataclass, or the attributes of these names, as a row; ``more`` adds or replaces.

    A queue becomes topic, broker and queue_id. The names are JSON keys of the command line: renaming a field is a
    change that users see.
    """
    row: dict[str, object] = {}
    for name in names or [field.name for field in fields(value)]:
        each = getattr(value, name)
        is_queue = isinstance(each, Queue)
        row |= {"topic": each.topic, "broker": each.broker, "queue_id": each.queue_id} if is_queue else {name: each}
    return row | more


class Output:
    """Prints the result of a command, which gets it as an argument (`cli/shared/options.py`)."""

    def __init__(self, output_format: OutputFormat = OutputFormat.TABLE) -> None:
        self.format = output_format

    @property
    def is_table(self) -> bool:
        """Whether it is for people."""
        return self.format is OutputFormat.TABLE

    def print_rows(
        self, columns: Sequence[TableColumn], rows: Iterable[Mapping[str, object]], *, if_empty: str = ""
    ) -> None:
        """Print a list. JSON has all values of a row, also those without a column.

        ``if_empty`` is a note for people if there are no rows.
        """
        if self.format is OutputFormat.TABLE:
            _print_table(columns, rows, if_empty)
        elif self.format is OutputFormat.CSV:
            _write_csv([column.key for column in columns], rows)
        elif self.format is OutputFormat.JSON:
            _write_json_list(rows)
        else:
            for row in rows:
                _write_json(to_json_value(row))

    def print_object(self, values: Mapping[str, object]) -> None:
        """Print one object: a line for each of its values."""
        if self.format is OutputFormat.TABLE:
            _print_object(values)
        elif self.format is OutputFormat.CSV:
            _write_csv(list(values), [values])
        else:
            _write_json(to_json_value(values))

    def print_result(self, sentence: str, **values: object) -> None:
        """Print what was done: a sentence for people, values for programs."""
        if self.format is OutputFormat.TABLE:
            _set_stdout_encoding(None)
            _write_line(printable(sentence))
        else:
            self.print_object(values)


def latency_figures(took_ms: Sequence[float]) -> dict[str, float | None]:
    """Return minimum, mean, 99th percentile and maximum; all but the mean are values that were measured.

    >>> latency_figures([4.0, 1.0, 3.0, 2.0])
    {'min_ms': 1.0, 'avg_ms': 2.5, 'p99_ms': 4.0, 'max_ms': 4.0}
    """
    ordered = sorted(took_ms)
    if not ordered:
        return dict.fromkeys(("min_ms", "avg_ms", "p99_ms", "max_ms"))
    p99 = ordered[math.ceil(len(ordered) * 0.99) - 1]
    found = {"min_ms": ordered[0], "avg_ms": sum(ordered) / len(ordered), "p99_ms": p99, "max_ms": ordered[-1]}
    return {name: round(value, 3) for name, value in found.items()}


def to_json_value(value: Any) -> Any:
    """Return a value as JSON can encode it.

    >>> to_json_value({"at": datetime(2026, 11, 1, 8, tzinfo=UTC), "took": timedelta(seconds=2), "body": b"hello"})
    {'at': '2026-11-01T08:00:00Z', 'took': 2.0, 'body': 'hello'}
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime):
        precision = "milliseconds" if value.microsecond else "seconds"
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): to_json_value(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_value(asdict(value))
    if isinstance(value, Iterable):
        return [to_json_value(each) for each in value]
    return str(value)


def _to_text(value: Any, show: Callable[[Any], str] | None = None) -> str:
    """Return a value for people; None is a dash."""
    if value is None:
        return "-"
    if show is not None:
        return printable(show(value))
    plain = to_json_value(value)
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, float):
        return f"{plain:.2f}".rstrip("0").rstrip(".")
    if isinstance(plain, list):
        return printable(", ".join(map(_to_text, plain))) or "-"
    if isinstance(plain, dict):
        return printable(", ".join(f"{key}={_to_text(each)}" for key, each in plain.items())) or "-"
    return printable(str(plain))


def _print_table(columns: Sequence[TableColumn], rows: Iterable[Mapping[str, object]], if_empty: str) -> None:
    from steelyard.cli.shared.tables import make_table, print_table

    table = make_table(
        *(f"{'#' if column.right else ''}{column.heading or column.key.replace('_', ' ')}" for column in columns)
    )
    for row in rows:
        table.add_row(*(_to_text(row.get(column.key), column.show) for column in columns))
    print_table(make_console(), table)
    if if_empty and not table.row_count:
        print_note(if_empty)


def _print_object(values: Mapping[str, object]) -> None:
    width = max(map(len, values), default=0) + 2
    console = make_console()
    for key, value in values.items():
        console.print(f"{key.replace('_', ' '):<{width}}{_to_text(value)}", soft_wrap=True)


def _set_stdout_encoding(encoding: str | None) -> None:
    """Escape characters that cannot be encoded; output for programs is always UTF-8."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def _write_csv(keys: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    _set_stdout_encoding("utf-8")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(keys)
    to_terminal = sys.stdout.isatty()
    for row in rows:
        out.writerow([_to_csv_cell(to_json_value(row.get(key)), to_terminal=to_terminal) for key in keys])
    sys.stdout.flush()


def _to_csv_cell(value: Any, *, to_terminal: bool) -> Any:
    """Return a value as a CSV cell; control characters are escaped on a terminal."""
    text = msgspec.json.encode(value).decode() if isinstance(value, list | dict | bool) else value
    return printable(text) if to_terminal and isinstance(text, str) else text


def _write_json(value: Any) -> None:
    _set_stdout_encoding("utf-8")
    line = msgspec.json.encode(value).decode()
    _write_line(printable_json(line) if sys.stdout.isatty() else line)


def _write_json_list(rows: Iterable[Mapping[str, object]]) -> None:
    """Write a JSON list row by row: together they may be large."""
    _set_stdout_encoding("utf-8")
    to_terminal = sys.stdout.isatty()
    start = "["
    for row in rows:
        text = msgspec.json.encode(to_json_value(row)).decode()
        sys.stdout.write(start + (printable_json(text) if to_terminal else text))
        start = ","
    _write_line("[]" if start == "[" else "]")


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def finding_values(finding: Finding) -> dict[str, object]:
    """Return a finding as JSON values."""
    return {
        "kind": finding.kind,
        "severity": finding.severity.value,
        "message": finding.message,
        "next_step": finding.next_step or None,
        "evidence": dict(finding.evidence),
    }
