"""Python and the dashboard's JavaScript write sizes, shares, durations, times and short member names alike."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from steelyard.model.formatting import (
    format_bytes,
    format_duration,
    format_number,
    format_percent,
    format_time,
    pluralize,
    short_names,
)
from tests.tidy.tree import ROOT

_TABLE = Path(__file__).with_name("formatting.json")
_EXAMPLES: dict[str, Any] = json.loads(_TABLE.read_bytes())
_PYTHON: dict[str, Callable[[Any], object]] = {
    "bytes": format_bytes,
    "share": format_percent,
    "duration": lambda ms: format_duration(ms / 1_000),
    "whole": format_number,
    "shortNames": short_names,
}
_FORMAT_JS = ROOT / "src" / "steelyard" / "dashboard" / "static" / "js" / "app" / "format.js"

# Node takes files that end with .js for modules only beside a package.json, so it is told otherwise by `data:` imports.
_SCRIPT = """
const { readFileSync } = require("node:fs");
const [source, table, zone] = process.argv.slice(1);
const text = readFileSync(source, "utf8").replace(/^import .*$/m, 'const language = () => "en", t = (key) => key;');
import("data:text/javascript;base64," + Buffer.from(text).toString("base64")).then((js) => {
  const { time, ...plain } = JSON.parse(readFileSync(table, "utf8"));
  const unknown = Object.keys(plain).slice(0, 4).map((name) => js[name](null));
  const found = Object.entries(plain).map(([name, rows]) => [name, rows.map(([given]) => [given, js[name](given)])]);
  const texts = time[zone].map(([at]) => [at, js.time(at, { dated: true }), js.time(at, { dated: true, ms: true })]);
  console.log(JSON.stringify({ ...Object.fromEntries(found), time: texts, unknown }));
});
"""


@pytest.mark.parametrize("kind", sorted(_PYTHON))
def test_python_writes_each_example(kind: str) -> None:
    assert [[given, _PYTHON[kind](given)] for given, _ in _EXAMPLES[kind]] == _EXAMPLES[kind]


@pytest.mark.parametrize("zone", sorted(_EXAMPLES["time"]))
def test_python_writes_times_with_their_zone(zone: str) -> None:
    for at_ms, seconds, milliseconds in _EXAMPLES["time"][zone]:
        when = datetime.fromtimestamp(at_ms / 1_000, UTC)
        assert format_time(when, ZoneInfo(zone)) == seconds
        assert format_time(when, ZoneInfo(zone), "milliseconds") == milliseconds


@pytest.mark.process
@pytest.mark.parametrize("zone", sorted(_EXAMPLES["time"]))
def test_the_dashboard_writes_the_same(zone: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    done = subprocess.run(
        [node, "-e", _SCRIPT, str(_FORMAT_JS), str(_TABLE), zone],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        check=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert found.pop("unknown") == ["\N{EN DASH}"] * 4
    assert found == {**_EXAMPLES, "time": _EXAMPLES["time"][zone]}


def test_a_number_has_the_right_noun() -> None:
    assert [pluralize(number, "row") for number in (0, 1, 2, 2_000)] == ["0 rows", "1 row", "2 rows", "2,000 rows"]
