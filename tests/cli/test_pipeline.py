"""`steelyard pipeline`: jobs are listed, mistakes are reported before Spark starts, and a job stops on a signal."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.errors import how_to_install
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.spark import spark_session
from tests.cli import processes
from tests.cli.processes import command_process, create_topic
from tests.pipelines.archives import places, send
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL = ("--topic", "orders", "--sql", "SELECT * FROM messages")
_LONG = "SELECT * FROM messages".ljust(300)
"""Longer than a file's name may be."""


def test_jobs_are_listed_each_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "ls"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line[0] != " "] == [
        *("pipeline", "archive", "aggregate", "replay", "balance")
    ]


def test_a_job_that_is_not_there_is_refused_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "archvie"]) == ExitCode.USAGE
    assert "Did you mean 'archive'?" in capsys.readouterr().err


@pytest.mark.process
def test_help_loads_neither_spark_nor_jobs() -> None:
    program = (
        "import sys\nfrom steelyard.cli.main import main\nmain(['pipeline', 'run', 'archive', '--help'])\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'steelyard.pipelines'))])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.splitlines()[-1] == "[]"


def test_a_dry_run_shows_ranges_and_writes_nothing(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(cluster.namesrv, "dry", 1)
    send(cluster.namesrv, [Message("dry", b"x")] * 10)
    words = ["archive", "--topic", "dry", "--to", str(tmp_path / "lake"), "--namesrv", cluster.namesrv]
    assert main(["pipeline", "run", *words, "--dry-run"]) == 0
    reported = capsys.readouterr()
    rows = [line.split() for line in reported.out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["dry@broker-0:0", "0"], ["dry@broker-1:0", "0"]]
    assert sum(int(row[3]) for row in rows) == 10
    assert "starts without a checkpoint: 10 messages in 2 queues" in reported.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["archive", "--topic", "ordres", "--to", "lake"], ExitCode.NOT_FOUND, "Did you mean 'orders'?"),
        (["archive", "--topic", "orders", "--to", "lake", "--trigger", "soon"], ExitCode.USAGE, "'soon' is no trigger"),
        (["archive", "--topic", "orders", "--to", "lake", "--merge", "1"], ExitCode.USAGE, "give 2 or more, or 0"),
        (["archive", "--topic", "orders", "--to", "lake", "--option", "tgas=a"], ExitCode.USAGE, "did you mean tags?"),
        (
            ["archive", "--topic", "orders", "--to", "lake", "--option", "tags"],
            ExitCode.USAGE,
            "write it as name=value",
        ),
        (["archive", "--topic", "orders", "--to", "lake", "--start", "soon"], ExitCode.USAGE, "'soon' is no time"),
        (["aggregate", "--topic", "orders", "--sql", "gone.sql"], ExitCode.USAGE, "'gone.sql' cannot be read"),
        (["aggregate", "--topic", "ordres", "--sql", _LONG], ExitCode.NOT_FOUND, "Did you mean 'orders'?"),
        (["aggregate", *_ALL, "--to-topic", "ordres"], ExitCode.NOT_FOUND, "Did you mean 'orders'?"),
        (["aggregate", *_ALL, "--to", "lake", "--checkpoint", "lake/kept"], ExitCode.USAGE, "is inside of"),
        (
            ["replay", "--from", "lake", "--to-topic", "orders", "--option", "tgas=a"],
            ExitCode.USAGE,
            "no option 'tgas'",
        ),
        (["replay", "--from", "lake", "--to-topic", "orders", "--option", "Topic=a"], ExitCode.USAGE, "leave it out"),
        (["replay", "--from", "lake", "--to-topic", "ordres"], ExitCode.NOT_FOUND, "Did you mean 'orders'?"),
        (["replay", "--from", "lake", "--to-topic", "orders", "--rate", "fast"], ExitCode.USAGE, "'fast' is no rate"),
    ],
)
def test_a_mistake_is_one_line_before_spark_starts(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: ExitCode,
    says: str,
) -> None:
    create_topic(cluster.namesrv, "orders")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark_session, "session", lambda: pytest.fail("Spark was started"))
    assert main(["pipeline", "run", *words, "--namesrv", cluster.namesrv]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def nothing(name: str) -> None:
        assert name

    monkeypatch.setattr(spark_session, "find_spec", nothing)
    assert main(["pipeline", "run", "archive", "--topic", "orders", "--to", "lake"]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        f"steelyard: Spark sessions need a package that is not installed; {how_to_install('spark')}\n"
    )


class _Shared:
    """The session that tests share, which a command must not stop."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> object:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Leave it as it is."""


def test_a_stopped_job_ends_after_its_batch(
    cluster: Cluster,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(processes, "TIMEOUT_S", 200)
    monkeypatch.setattr(spark_session, "session", lambda *_, **__: _Shared(spark))
    create_topic(cluster.namesrv, "stopped")
    sent = send(cluster.namesrv, [Message("stopped", b"%d" % number) for number in range(50)])
    output, has_ended = "", threading.Event()

    def is_done() -> bool:
        nonlocal output
        output += capsys.readouterr().err
        return "batch 0: 50 rows" in output or has_ended.is_set()

    def tell_it_to_end() -> None:
        until(is_done)
        if not has_ended.is_set():
            os.kill(os.getpid(), SIGTERM)

    ending = threading.Thread(target=tell_it_to_end)
    ending.start()
    words = ["archive", "--topic", "stopped", "--to", str(tmp_path / "lake"), "--trigger", "500ms"]
    try:
        assert main(["pipeline", "run", *words, "--namesrv", cluster.namesrv]) == 0, output
    finally:
        has_ended.set()
        ending.join()
    assert "stopped by a signal" in capsys.readouterr().err
    assert places(tmp_path / "lake") == sorted(sent)


@pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="a Spark of its own: STEELYARD_SLOW=1")
@pytest.mark.process
@pytest.mark.xdist_group("spark-alone")
@pytest.mark.timeout(300)
def test_a_stopped_job_in_a_process_of_its_own_ends_well(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "TIMEOUT_S", 240)  # on a busy machine Spark alone needs more than other verbs do
    create_topic(cluster.namesrv, "ended")
    sent = send(cluster.namesrv, [Message("ended", b"%d" % number) for number in range(50)])
    words = ["archive", "--topic", "ended", "--to", str(tmp_path / "lake"), "--trigger", "500ms"]
    with command_process(cluster.namesrv, "pipeline", "run", *words, "--master", "local[1]") as running:
        running.wait_for(lambda: any("batch 0: 50 rows" in line for line in running.err))
        assert running.stop(SIGTERM) == 0
        assert "stopped by a signal" in running.err[-1]
    assert places(tmp_path / "lake") == sorted(sent)
