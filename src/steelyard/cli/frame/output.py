"""How an answer is printed: a table for people, or JSON, lines of JSON or CSV for programs.

Only answers go to stdout. A list is one JSON array, one object a line, or a CSV with a header; one thing is one object.
Programs get values as they are (numbers, times in ISO 8601), people get them as they read them best.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from io import TextIOWrapper
from typing import Any, NamedTuple

import msgspec

__all__ = ["Column", "Format", "Out", "plain"]


class Format(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Column(NamedTuple):
    """A column of a table: which value it shows, what stands above it, and how people read it."""

    key: str
    head: str = ""
    right: bool = False
    show: Callable[[Any], str] | None = None


class Out:
    """Where a verb puts its answer. It is asked for as an argument (`cli/frame/where.py`)."""

    def __init__(self, form: Format = Format.TABLE) -> None:
        self.form = form

    @property
    def is_table(self) -> bool:
        """Whether people read it."""
        return self.form is Format.TABLE

    def rows(self, columns: Sequence[Column], rows: Iterable[Mapping[str, object]], *, none: str = "") -> None:
        """Print a list. Rows may have more values than there are columns: JSON has all of them.

        ``none`` is told to people if there is nothing to list.
        """
        if self.form is Format.TABLE:
            _print_table(columns, rows, none)
        elif self.form is Format.CSV:
            _write_csv([column.key for column in columns], rows)
        elif self.form is Format.JSON:
            _write_json([plain(row) for row in rows])
        else:
            for row in rows:
                _write_json(plain(row))

    def one(self, values: Mapping[str, object]) -> None:
        """Print one thing: a line for each of its values."""
        if self.form is Format.TABLE:
            _print_values(values)
        elif self.form is Format.CSV:
            _write_csv(list(values), [values])
        else:
            _write_json(plain(values))

    def done(self, sentence: str, **values: object) -> None:
        """Say what was done: a sentence for people, its facts for programs."""
        if self.form is Format.TABLE:
            from steelyard.cli.frame.screen import visible

            _be_able_to_show(None)
            _write_line(visible(sentence))
        else:
            self.one(values)


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    >>> plain({"at": datetime(2026, 11, 1, 8, tzinfo=UTC), "took": timedelta(seconds=2), "body": b"hello"})
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
        return {str(key): plain(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return str(value)


def _in_words(value: Any, show: Callable[[Any], str] | None = None) -> str:
    """Return a value as people read it; what is not known is a dash."""
    from steelyard.cli.frame.screen import visible

    if value is None:
        return "-"
    if show is not None:
        return visible(show(value))
    made = plain(value)
    if isinstance(made, bool):
        return "yes" if made else "no"
    if isinstance(made, float):
        return f"{made:.2f}".rstrip("0").rstrip(".")
    if isinstance(made, list):
        return visible(", ".join(map(_in_words, made))) or "-"
    if isinstance(made, dict):
        return visible(", ".join(f"{key}={_in_words(each)}" for key, each in made.items())) or "-"
    return visible(str(made))


def _print_table(columns: Sequence[Column], rows: Iterable[Mapping[str, object]], none: str) -> None:
    from steelyard.cli.frame.screen import note, screen
    from steelyard.cli.frame.tables import listing, print_listing

    table = listing(
        *(f"{'#' if column.right else ''}{column.head or column.key.replace('_', ' ')}" for column in columns)
    )
    for row in rows:
        table.add_row(*(_in_words(row.get(column.key), column.show) for column in columns))
    print_listing(screen(), table)
    if none and not table.row_count:
        note(none)


def _print_values(values: Mapping[str, object]) -> None:
    from steelyard.cli.frame.screen import screen

    width = max(map(len, values), default=0) + 2
    console = screen()
    for key, value in values.items():
        console.print(f"{key.replace('_', ' '):<{width}}{_in_words(value)}", soft_wrap=True)


def _be_able_to_show(encoding: str | None) -> None:
    """Let no character be a failure: for programs all is UTF-8, whatever the terminal is said to show."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def _write_csv(keys: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    _be_able_to_show("utf-8")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(keys)
    is_seen = sys.stdout.isatty()
    for row in rows:
        out.writerow([_in_csv(plain(row.get(key)), is_seen=is_seen) for key in keys])
    sys.stdout.flush()


def _in_csv(value: Any, *, is_seen: bool) -> Any:
    """Return a value as CSV has it; on a terminal nothing in it is a command."""
    from steelyard.cli.frame.screen import visible

    text = msgspec.json.encode(value).decode() if isinstance(value, list | dict | bool) else value
    return visible(text) if is_seen and isinstance(text, str) else text


def _write_json(value: Any) -> None:
    from steelyard.cli.frame.screen import visible_json

    _be_able_to_show("utf-8")
    line = msgspec.json.encode(value).decode()
    _write_line(visible_json(line) if sys.stdout.isatty() else line)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
