"""The demo runs all scenes, proves delivery, and leaves nothing behind.

One run of the tests shows it once. That it can be stopped anywhere, and runs without Spark, takes a demo for each:
`make chaos` does that (STEELYARD_SLOW=1).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo import story
from examples.demo.delivery_report import DeliveryCounts, DeliveryLog
from examples.demo.spark_job import BatchArchived, ParquetCount
from examples.demo.spark_process import SparkProcess, WindowTable
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.errors import MissingExtra, how_to_install
from tests.tidy.tree import ROOT

# As `make demo` does it, but without pauses for people to look.
# `examples` is found from any directory.
_PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
_HURRIED = "import sys; from examples.demo.story import main; sys.exit(main(pause_s=0))"
_WITHOUT_PYSPARK = f"import sys; sys.modules['pyspark'] = None; {_HURRIED}"

_long = pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="a whole demo for each: STEELYARD_SLOW=1")
_needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, as Linux has it")


class DemoProcess:
    """Where a demo is shown: a home and a place for temporary files that are looked through afterwards."""

    def __init__(self, directory: Path) -> None:
        self.home, self.work = directory / "home", directory / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.environment = os.environ | {
            "HOME": str(self.home),
            "COLUMNS": "80",
            "TMPDIR": str(self.work),
            "PYTHONPATH": _PYTHONPATH,
        }

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
def stage(tmp_path: Path) -> DemoProcess:
    return DemoProcess(tmp_path)


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
def test_the_demo_runs_and_proves_it(stage: DemoProcess) -> None:
    done = stage.show()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    numbers = check_story(lines)
    assert (numbers["rows in Parquet"], numbers["duplicate rows in Parquet"]) == (numbers["sent"], 0)
    assert numbers["messages in Spark's windowed table"] == numbers["sent"]
    # A window with a few messages has no bar.
    windows = [number for name, number in numbers.items() if re.match(r"\d+-\d+ s( |$)", name)]
    assert sum(windows) == numbers["sent"]
    killed = re.search(r"it is killed \(-9\) after batch (\d+)", done.stdout)
    assert re.search(
        r"waiting until Spark (writes|has read to the end): (Java and Spark are starting|Spark is up)", done.stdout
    )
    went_on = re.search(r"Spark resumed with batch (\d+)", done.stdout)
    assert killed is not None
    assert went_on is not None
    assert int(went_on[1]) == int(killed[1]) + 1
    assert stage.left() == []


@_long
@pytest.mark.process
@pytest.mark.timeout(120)
def test_without_spark_the_whole_rest_is_reported(stage: DemoProcess) -> None:
    done = stage.show(_WITHOUT_PYSPARK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows in Parquet" not in check_story(done.stdout.splitlines())
    assert stage.left() == []


# -- how it begins and how it ends, with nothing between ---------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the scenes between the beginning and the proof: one message is sent and handled."""

    def one_message(reported: story._Story) -> None:
        reported._delivery_log.record_sent(0, "broker-0")
        reported._delivery_log.record_handled(0, "c1")

    monkeypatch.setattr(story._Story, "_members_come", one_message)
    for scene in ("_one_is_killed", "_a_broker_is_slow"):
        monkeypatch.setattr(story._Story, scene, lambda _: None)


@pytest.mark.usefixtures("short")
def test_without_spark_the_rest_is_reported_and_what_is_not_proven_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert story.main(pause_s=0) == ExitCode.DONE
    out, err = capsys.readouterr()
    output = " ".join(out.split())
    assert "the demo continues without Spark: Spark sessions need a package that is not installed" in output
    assert how_to_install("spark") in output
    assert "rows in Parquet" not in output
    assert "not proven without Spark: that each message is in Parquet exactly once" in output
    assert "all of it held" in output
    assert err == ""


class LossySparkProcess(SparkProcess):
    """Has written all but one of so many messages, as far as the story can see."""

    sent = 0

    def prepare(self) -> str:
        return "Spark, as it were"

    def start(self) -> None:
        self.up_after_s = 0.0

    def has_written(self) -> bool:
        return True

    @property
    def archived(self) -> list[BatchArchived]:
        return [BatchArchived(0, 1)]

    def last_published(self) -> int:
        return 0

    def table(self) -> WindowTable:
        return {(0, "broker-0"): self.sent - 1}


class OvercountingLog(DeliveryLog):
    """Counts a message that nobody has sent."""

    def count(self) -> DeliveryCounts:
        self.record_sent(-1, "broker-0")
        return super().count()


@pytest.mark.usefixtures("short")
def test_a_broken_promise_fails_the_proof(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[OvercountingLog] = []

    def proof() -> DeliveryLog:
        made.append(OvercountingLog())
        return made[-1]

    def finish(lake: LossySparkProcess) -> None:
        lake.sent = made[-1].sent
        lake.lake = ParquetCount(lake.sent - 1, lake.sent - 1, 1, 1, 1)

    monkeypatch.setattr(story, "DeliveryLog", proof)
    monkeypatch.setattr(story, "SparkProcess", LossySparkProcess)
    monkeypatch.setattr(LossySparkProcess, "finish", finish)
    assert story.main(pause_s=0) == ExitCode.FAILED
    out, err = capsys.readouterr()
    sent = made[-1].sent
    assert err == (
        f"steelyard: the proof fails: 1 message of {sent} never handled; Parquet has {sent - 2} of {sent} messages; "
        f"Spark's windowed table counts {sent - 2} of {sent} messages\n"
    )
    assert "all of it held" not in out


@pytest.mark.process
def test_a_story_that_does_not_go_on_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_spark(_: SparkProcess) -> str:
        raise MissingExtra("Spark sessions", extra="spark")

    monkeypatch.setattr(story, "_TIMEOUT_S", 0.0)
    monkeypatch.setattr(SparkProcess, "prepare", no_spark)
    assert story.main(pause_s=0) == ExitCode.TIMED_OUT
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
def test_whenever_it_is_stopped_nothing_is_left(stage: DemoProcess, moment: str, wishes: list[signal.Signals]) -> None:
    with stage.start() as demo:
        assert demo.stdout is not None
        while moment not in demo.stdout.readline():
            assert demo.poll() is None
        for wish in wishes:
            demo.send_signal(wish)
        _, err = demo.communicate()
    assert (demo.returncode, err) == (ExitCode.INTERRUPTED, "")
    assert stage.left() == []
