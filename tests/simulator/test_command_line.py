import json
import subprocess
import sys

import pytest

from simulator import history
from simulator.checkers.checker import CheckerFinding, FindingKind
from simulator.command_line import main
from simulator.outcome import HistoryOutcome
from tests import forkserver

SEED = 4242


def test_a_run_prints_situations_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--histories", "3", "--seed", "0", "--jobs", "1"]) == 0
    output = capsys.readouterr()
    assert "3 histories" in output.out
    assert "no history failed" in output.out
    assert output.err == ""


@pytest.mark.process
def test_worker_processes_find_the_same() -> None:
    def reported(jobs: str) -> dict[str, object]:
        # Not in this process: Python's tracker of what workers share stays as long as the process that has them.
        words = ["-m", "simulator", "--histories", "4", "--jobs", jobs, "--output", "json"]
        done = subprocess.run([*forkserver.python(), *words], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        return {name: value for name, value in answer.items() if name != "seconds"}

    one = reported("1")
    assert one["histories"] == 4
    assert one["failed"] == []
    assert reported("2") == one


def test_a_replay_prints_the_scenario_and_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "0", "--only", "churn", "--drop", "m1,n2", "--trace"]) == 0
    output = capsys.readouterr().out
    assert "history 0, churn" in output
    assert "m1: member" not in output
    assert "HEART_BEAT" in output
    assert "digest" in output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--only", "weather"], "weather"),
        (["--replay", "1", "--only", "weather"], "weather"),
        (["--replay", "1", "--drop", "f99"], "f99"),
        (["--drop", "f1"], "--replay"),
        (["--trace"], "--replay"),
        (["--output", "xml"], "xml"),
        (["--plant", "gremlin"], "gremlin"),
        (["--hunt", "--only", "churn"], "--only"),
        (["--hunt", "--replay", "3"], "--replay"),
        (["--histories", "0"], "histories"),
        (["--jobs", "many"], "jobs"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert why in output.err


@pytest.mark.parametrize(("kind", "code"), [("safety", 1), ("liveness", 3), ("error", 4)])
def test_a_failure_is_made_smaller_and_can_be_replayed(
    kind: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int, only: str | None = None, *, dropped: tuple[str, ...] = (), **_: object) -> HistoryOutcome:
        worst: FindingKind = "liveness" if kind == "liveness" else "safety"
        finding = CheckerFinding(
            checker="lost", kind=worst, subsystem="delivery", sentence="it is gone", at_ms=7, facts=()
        )
        if seed != SEED:
            return HistoryOutcome(seed, only or "churn")
        if kind == "error":
            return HistoryOutcome(seed, "churn", dropped=dropped, error="Traceback\nValueError: no")
        return HistoryOutcome(seed, "churn", findings=(finding,), dropped=dropped)

    monkeypatch.setattr(history, "run_history", run)
    assert main(["--seed", f"{SEED - 1}", "--histories", "2", "--only", "churn", "--jobs", "1"]) == code
    output = capsys.readouterr().out
    assert "1 of 2 histories failed" in output
    assert f"replay: python -m simulator --replay {SEED} --only churn --drop" in output
    assert "n0 --trace" in output
    if kind != "error":
        assert f"{kind}, the delivery half: lost at 0.007 s: it is gone" in output


def test_every_history_that_failed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int, *_: object, dropped: tuple[str, ...] = (), **__: object) -> HistoryOutcome:
        return HistoryOutcome(seed, "churn", dropped=dropped, error="Traceback\nValueError: no" if seed % 2 else None)

    monkeypatch.setattr(history, "run_history", run)
    assert main(["--seed", f"{SEED}", "--histories", "4", "--only", "churn", "--jobs", "1"]) == 4
    output = capsys.readouterr().out
    for seed in (SEED + 1, SEED + 3):
        assert output.count(f"history {seed}, churn: ") == 1
        assert f"replay: python -m simulator --replay {seed} --only churn" in output
    assert "2 of 4 histories failed" in output


def test_a_planted_mutant_ends_the_run_that_finds_it_and_is_replayed_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--plant", "half-visible", "--histories", "20", "--jobs", "1"]) == 1
    output = capsys.readouterr().out
    assert "transaction: half messages invisible" in output
    (command,) = (line for line in output.splitlines() if "replay: python -m simulator" in line)
    words = command.partition("simulator ")[2].removesuffix(" --trace").split()
    assert words[-2:] == ["--plant", "half-visible"]
    assert main(words) == 1
    assert "half messages invisible" in capsys.readouterr().out
    assert main(words[:-2]) == 0


def test_a_hunt_prints_what_finds_a_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hunt", "--plant", "half-visible"]) == 0
    output = capsys.readouterr().out
    assert (
        "half-visible  half messages invisible, 1 history: python -m simulator --replay 0 --only transaction --plant"
        in output
    )
    assert "1 of 1 bugs were found" in output
    assert main(["--hunt", "--plant", "half-visible", "--output", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["half-visible"]
    assert (summary["checker"], summary["histories"]) == ("half messages invisible", 1)


@pytest.mark.process
def test_asking_for_help_does_not_load_the_simulator() -> None:
    code = "import sys, steelyard.cli.main; sys.exit(any(name.startswith('simulator') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
