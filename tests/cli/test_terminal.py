"""What is printed reaches its reader as it is, on any terminal, and what cannot be printed is one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.cli.main import main
from tests.tidy.tree import ROOT

_PLAN = ("plan", "--queues", "4", "--members", "1..3")


def _ends(*command: str, out: int, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        command, stdout=out, stderr=subprocess.PIPE, env=os.environ | (env or {}), cwd=ROOT, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [("steelyard", *_PLAN), ("steelyard", *_PLAN, "--json"), ("steelyard", "--version"), ("examples.demo",)],
    ids=" ".join,
)
def test_a_reader_who_has_seen_enough_is_no_failure(command: tuple[str, ...]) -> None:
    gone, out = os.pipe()
    os.close(gone)
    try:
        assert _ends(sys.executable, "-m", *command, out=out) == (0, "")
    finally:
        os.close(out)


@pytest.mark.process
@pytest.mark.parametrize("command", [("steelyard", *_PLAN), ("steelyard", *_PLAN, "--json"), ("examples.demo",)])
def test_a_full_disk_is_one_line_and_exit_code_two(command: tuple[str, ...], tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -f 0 && exec "$@" > "$0"', str(tmp_path / "out"))
    code, output = _ends(*limited, sys.executable, "-m", *command, out=subprocess.DEVNULL)
    assert code == 2
    assert output.startswith("steelyard: the output cannot be written (")
    assert output.count("\n") == 1


@pytest.mark.process
def test_a_character_that_the_terminal_lacks_is_shown_by_its_number_and_json_stays_utf_8(tmp_path: Path) -> None:
    path, out = tmp_path / "group.json", tmp_path / "out"
    path.write_text(json.dumps({"group": "g", "queues": [["t", "a", 0]], "members": ["Zoë"]}), encoding="utf-8")
    plan = (sys.executable, "-m", "steelyard", "plan", "--input", str(path))
    for encoding, extra, shown in (
        ("ascii", (), b"Zo\\xeb"),
        ("utf-8", (), "Zoë".encode()),
        ("ascii", ("--json",), "Zoë".encode()),
        ("latin-1", ("--json",), "Zoë".encode()),
    ):
        with out.open("wb") as file:
            assert _ends(*plan, *extra, out=file.fileno(), env={"PYTHONIOENCODING": encoding}) == (0, "")
        assert shown in out.read_bytes()


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, queues = tmp_path / "group.json", [["[b]t", "a", 0], ["[b]t", "a", 1]]
    members = ["[/red]", ":smile:"]
    path.write_text(json.dumps({"group": "[/g]", "queues": queues, "members": members, "previous": {"[x]": queues}}))
    assert main(["plan", "--input", str(path)]) == 0
    output = capsys.readouterr().out
    for name in (*members, "[/g]", "[b]t@a:1 goes from [x] to [/red]: [x] left"):
        assert name in output


def test_a_narrow_terminal_folds_and_leaves_nothing_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert main([*_PLAN]) == 0
    assert "…" not in capsys.readouterr().out
