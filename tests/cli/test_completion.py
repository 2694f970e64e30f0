"""Shell completion as a shell asks for it: subcommands, options, values, and names in the cluster."""

import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.cli.main import COMMANDS, main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.cli.processes import create_topic


def _completed(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what bash is offered for the last word of a line."""
    with monkeypatch.context() as patch:
        patch.setenv("_STEELYARD_COMPLETE", "bash_complete")
        patch.setenv("COMP_WORDS", line)
        patch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert main([]) == 0
    return [each.partition(",")[2] for each in capsys.readouterr().out.split()]


def test_subcommands_options_and_values_are_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def completed(line: str) -> list[str]:
        return _completed(line, capsys, monkeypatch)

    assert completed("steelyard ") == [name for panel in COMMANDS.values() for name in panel]
    assert completed("steelyard to") == ["topic"]
    assert completed("steelyard topic del") == ["delete"]
    assert completed("steelyard topic list --sys") == ["--system"]
    assert completed("steelyard topic ls --output j") == ["json", "jsonl"]


def test_names_in_the_cluster_are_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
        create_topic(cluster.namesrv, "completed")
        assert _completed("steelyard topic delete comp", capsys, monkeypatch) == ["completed"]
        assert _completed("steelyard broker show brok", capsys, monkeypatch) == ["broker-0"]
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    assert _completed("steelyard topic delete comp", capsys, monkeypatch) == []


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_the_script_without_a_complaint(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == ExitCode.DONE
    script = capsys.readouterr().out
    assert f"_STEELYARD_COMPLETE={shell}_complete" in script
    if (found := shutil.which(shell)) is not None:
        said = subprocess.run([found, "-n"], input=script, capture_output=True, text=True, check=True)
        assert (said.stdout, said.stderr) == ("", "")


@pytest.mark.process
def test_bash_offers_what_it_is_answered(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    command = tmp_path / "steelyard"
    command.write_text(f'#!/bin/sh\nexec {" ".join(forkserver.python())} -m steelyard "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    typed = (
        f"PATH={tmp_path}:$PATH; source <(steelyard completion bash); COMP_WORDS=(steelyard gro); COMP_CWORD=1; "
        '_steelyard_completion steelyard; echo "${COMPREPLY[@]}"'
    )
    said = subprocess.run([bash, "-c", typed], capture_output=True, text=True, check=True)
    assert said.stdout == "group\n"


def test_another_shell_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == ExitCode.USAGE
    assert "give bash, zsh or fish" in capsys.readouterr().err
