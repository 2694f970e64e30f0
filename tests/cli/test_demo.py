"""The demo tells its whole story, proves it, and leaves nothing behind.

The whole story is told once in a run of the tests. That it can be told to end wherever it is, and told whole without
Spark, takes a demo for each: `make chaos` does that (STEELYARD_SLOW=1).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.cli.demo import story
from steelyard.cli.demo.archivist import Archivist, Table
from steelyard.cli.demo.lake import Archived, Lake
from steelyard.cli.demo.proof import Proof, Verdict
from steelyard.cli.frame.exits import Exit
from steelyard.errors import MissingExtra
from steelyard.errors.extras import how_to_install

# As `make demo` does it, but without pauses for people to look.
_HURRIED = "import sys; from steelyard.cli.demo.story import main; sys.exit(main(pause_s=0))"
_WITHOUT_PYSPARK = f"import sys; sys.modules['pyspark'] = None; {_HURRIED}"

_long = pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="a whole demo for each: STEELYARD_SLOW=1")
_needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, as Linux has it")


class Stage:
    """Where a demo is shown: a home and a place for temporary files that are looked through afterwards."""

    def __init__(self, directory: Path) -> None:
        self.home, self.work = directory / "home", directory / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.environment = os.environ | {"HOME": str(self.home), "COLUMNS": "80", "TMPDIR": str(self.work)}

    def start(self, code: str = _HURRIED) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", "-c", code],
            cwd=self.work,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def show(self, code: str = _HURRIED) -> subprocess.CompletedProcess[str]:
        with self.start(code) as demo:
            out, err = demo.communicate()
        return subprocess.CompletedProcess(demo.args, demo.returncode, out, err)

    def left(self) -> list[str]:
        """Return what is still there: files, and processes that were started here."""
        files = [str(path) for place in (self.home, self.work) for path in place.rglob("*")]
        return [*files, *self._processes()]

    def _processes(self) -> Iterator[str]:
        mark = os.fsencode(str(self.work))
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    yield (process / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it is gone, or not ours


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def check_story(lines: list[str]) -> dict[str, int]:
    """Check what every telling has, and return the numbers that it ends with."""
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() and line == line.rstrip() for line in lines)
    rows = [line.split() for line in lines]
    each = [row[-1] for row in rows if row and row[0] in ("c1", "c2", "c3")]
    assert each == ["16", "8/8", "6/5/5", "8/8"]
    moves = [line.strip() for line in lines if line.endswith("is the least possible")]
    assert moves == [f"{moved} moved, and {moved} is the least possible" for moved in (8, 5, 5)]
    story = "\n".join(lines)
    assert re.search(r"the queues of c2 had new owners \d+ ms after it was killed", story)
    assert re.search(r"while it is slow +broker-0 +(9\d|100) % +broker-1 +\d %", story)
    assert re.search(r"quick again +broker-0 +\d\d % +broker-1 +\d\d %", story)
    numbers = {" ".join(row[:-1]): int(row[-1]) for row in rows if row and row[-1].isdigit()}
    assert numbers["sent"] == numbers["handled"] > 0
    assert (numbers["lost"], numbers["handled twice in planned changes"]) == (0, 0)
    return numbers


@pytest.mark.process
@pytest.mark.xdist_group("spark-alone")
@pytest.mark.timeout(480)
def test_the_demo_tells_its_story_and_proves_it(stage: Stage) -> None:
    done = stage.show()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    numbers = check_story(lines)
    assert (numbers["rows in Parquet"], numbers["rows in Parquet that are there twice"]) == (numbers["sent"], 0)
    assert numbers["messages in Spark's windowed table"] == numbers["sent"]
    # A window with a few messages has no bar.
    windows = [number for name, number in numbers.items() if re.match(r"\d+-\d+ s( |$)", name)]
    assert sum(windows) == numbers["sent"]
    killed = re.search(r"it is killed \(-9\) after batch (\d+)", done.stdout)
    assert re.search(
        r"waiting until Spark (writes|has read to the end): (Java and Spark are starting|Spark is up)", done.stdout
    )
    went_on = re.search(r"Spark went on with batch (\d+)", done.stdout)
    assert killed is not None
    assert went_on is not None
    assert int(went_on[1]) == int(killed[1]) + 1
    assert stage.left() == []


@_long
@pytest.mark.process
@pytest.mark.timeout(120)
def test_without_spark_the_whole_rest_is_told(stage: Stage) -> None:
    done = stage.show(_WITHOUT_PYSPARK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows in Parquet" not in check_story(done.stdout.splitlines())
    assert stage.left() == []


# -- how it begins and how it ends, with nothing between ---------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the scenes between the beginning and the proof: one message is sent and handled."""

    def one_message(told: story._Story) -> None:
        told._proof.note_sent(0, "broker-0")
        told._proof.note_handled(0, "c1")

    monkeypatch.setattr(story._Story, "_members_come", one_message)
    for scene in ("_one_is_killed", "_a_broker_is_slow"):
        monkeypatch.setattr(story._Story, scene, lambda _: None)


@pytest.mark.usefixtures("short")
def test_without_spark_the_rest_is_told_and_what_is_not_proven_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert story.main(pause_s=0) == Exit.DONE
    out, err = capsys.readouterr()
    said = " ".join(out.split())
    assert "the story goes on without Spark: Spark sessions need a package that is not installed" in said
    assert how_to_install("spark") in said
    assert "rows in Parquet" not in said
    assert "not proven without Spark: that each message is in Parquet, and once" in said
    assert "all of it held" in said
    assert err == ""


class LossyLake(Archivist):
    """Has written all but one of so many messages, as far as the story can see."""

    sent = 0

    def prepare(self) -> str:
        return "Spark, as it were"

    def start(self) -> None:
        self.up_after_s = 0.0

    def has_written(self) -> bool:
        return True

    @property
    def archived(self) -> list[Archived]:
        return [Archived(0, 1)]

    def last_committed(self) -> int:
        return 0

    def table(self) -> Table:
        return {(0, "broker-0"): self.sent - 1}


class Boaster(Proof):
    """Counts a message that nobody has sent."""

    def verdict(self) -> Verdict:
        self.note_sent(-1, "broker-0")
        return super().verdict()


@pytest.mark.usefixtures("short")
def test_a_broken_promise_fails_the_proof(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Boaster] = []

    def proof() -> Proof:
        made.append(Boaster())
        return made[-1]

    def finish(lake: LossyLake) -> None:
        lake.sent = made[-1].sent
        lake.lake = Lake(lake.sent - 1, lake.sent - 1, 1, 1, 1)

    monkeypatch.setattr(story, "Proof", proof)
    monkeypatch.setattr(story, "Archivist", LossyLake)
    monkeypatch.setattr(LossyLake, "finish", finish)
    assert story.main(pause_s=0) == Exit.FAILED
    out, err = capsys.readouterr()
    told = made[-1].sent
    assert err == (
        f"steelyard: the proof fails: 1 message of {told} never handled; Parquet has {told - 2} of {told} messages; "
        f"Spark's windowed table counts {told - 2} of {told} messages\n"
    )
    assert "all of it held" not in out


@pytest.mark.process
def test_a_story_that_does_not_go_on_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_spark(_: Archivist) -> str:
        raise MissingExtra("Spark sessions", extra="spark")

    monkeypatch.setattr(story, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(Archivist, "prepare", no_spark)
    assert story.main(pause_s=0) == Exit.TIMED_OUT
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("steelyard: the demo ends here: that members own 16 did not come true")


@_long
@_needs_proc
@pytest.mark.process
@pytest.mark.xdist_group("spark-alone")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("moment", "wishes"),
    [
        ("two brokers are up", [signal.SIGINT]),
        ("Spark starts", [signal.SIGINT, signal.SIGINT, signal.SIGINT]),  # somebody who is in a hurry
        ("c1 is alone", [signal.SIGHUP]),  # the terminal is closed
        ("c3 joins", [signal.SIGTERM]),
        *((moment, [signal.SIGINT]) for moment in ("it is killed", "becomes slow", "producers have stopped")),
    ],
)
def test_whenever_it_is_told_to_end_nothing_is_left(stage: Stage, moment: str, wishes: list[signal.Signals]) -> None:
    with stage.start() as demo:
        assert demo.stdout is not None
        while moment not in demo.stdout.readline():
            assert demo.poll() is None
        for wish in wishes:
            demo.send_signal(wish)
        _, err = demo.communicate()
    assert (demo.returncode, err) == (Exit.INTERRUPTED, "")
    assert stage.left() == []
