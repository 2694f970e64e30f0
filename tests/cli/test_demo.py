"""The demo tells its whole story, proves it, and leaves nothing behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.cli.demo import story
from steelyard.cli.frame.exits import Exit

# As `make demo` does it, but without pauses for people to look.
_HURRIED = "import sys; from steelyard.cli.demo.story import main; sys.exit(main(pause_s=0))"
_OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Java says so whenever Spark starts it."""


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(360)
def test_the_demo_tells_its_story_and_proves_it(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    environment = os.environ | {"HOME": str(home), "COLUMNS": "80", "TMPDIR": str(work)}
    done = subprocess.run(
        [sys.executable, "-c", _HURRIED], capture_output=True, text=True, cwd=work, env=environment, check=False
    )
    assert (done.returncode, done.stderr.replace(_OF_JAVA, "")) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    each = [row[-1] for row in rows if row and row[0] in ("c1", "c2", "c3")]
    assert each == ["16", "8/8", "6/5/5", "8/8"]
    moves = [line.strip() for line in lines if line.endswith("is the least possible")]
    assert moves == [f"{moved} moved, and {moved} is the least possible" for moved in (8, 5, 5)]
    assert "ms after it was killed" in done.stdout
    numbers = {" ".join(row[:-1]): int(row[-1]) for row in rows if row and row[-1].isdigit()}
    assert numbers["sent"] == numbers["handled"] > 0
    assert (numbers["lost"], numbers["handled twice in planned changes"]) == (0, 0)
    assert (numbers["rows in Parquet"], numbers["rows in Parquet that are there twice"]) == (numbers["sent"], 0)
    assert list(home.iterdir()) == list(work.iterdir()) == []


def test_a_story_that_does_not_go_on_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(story, "_PATIENCE_S", 0.0)
    assert story.main(pause_s=0) == Exit.TIMED_OUT
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("steelyard: the demo ends here: that members own 16 did not come true")


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("ps") is None, reason="needs ps, as Linux has it")
@pytest.mark.timeout(120)
def test_a_demo_that_is_told_to_end_ends_its_members_too() -> None:
    with subprocess.Popen([sys.executable, "-c", _HURRIED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as demo:
        assert demo.stdout is not None
        while b"c1 is alone" not in demo.stdout.readline():
            continue
        listed = subprocess.run(
            [shutil.which("ps") or "ps", "-o", "pid=", "--ppid", str(demo.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        members = [int(each) for each in listed.stdout.split()]
        assert members
        demo.terminate()
        assert demo.wait(60) == Exit.INTERRUPTED
    for each in members:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)
