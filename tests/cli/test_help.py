"""Help comes without loading what it is about, and a mistake in a word is answered with the word that was meant."""

import shlex
import subprocess
import sys

import pytest

from steelyard.cli.main import COMMANDS, main
from steelyard.cli.shared.commands import make_command
from steelyard.cli.shared.exit_codes import ExitCode
from tests.docs.command_tree import commands

_HEAVY = ("rich", "asyncio", "ssl", "steelyard.client", "steelyard.serve", "steelyard.broker", "uvloop", "pyspark")


_HELPS = [["--help"], *([noun, "--help"] for panel in COMMANDS.values() for noun in panel)]

# One Python, which asks for each help in a fork of its own: nobody sees what another one has loaded.
_ASKING = f"""
import os, sys
from steelyard.cli.main import main
for words in {_HELPS}:
    print("\\f", flush=True)
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        code = main(words)
        print("\\v", *sys.modules, flush=True)
        os._exit(code)
"""


@pytest.fixture(scope="module")
def helps() -> list[str]:
    """Return what each help prints, and the modules that were loaded then."""
    done = subprocess.run([sys.executable, "-c", _ASKING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\f\n")[1:]


@pytest.mark.process
@pytest.mark.xdist_group("help")
@pytest.mark.parametrize("words", _HELPS)
def test_help_loads_nothing_heavy(words: list[str], helps: list[str]) -> None:
    output, _, modules = helps[_HELPS.index(words)].partition("\v")
    assert output.startswith("Usage: steelyard")
    loaded = modules.split()
    assert "steelyard.cli.main" in loaded
    assert not [name for name in loaded if any(name == each or name.startswith(f"{each}.") for each in _HEAVY)]


def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for words, meant in (
        (["topc", "ls"], "Did you mean 'topic'? See: steelyard --help"),
        (["context", "shw"], "Did you mean 'show'? See: steelyard context --help"),
        (["context", "ls", "--outptu", "json"], "ee: steelyard context ls --help"),
        (["context", "ls", "--output", "yaml"], "'table', 'json', 'jsonl', 'csv'; see: steelyard context ls --help"),
    ):
        assert main(words) == ExitCode.USAGE
        output = capsys.readouterr()
        assert (output.out, meant in output.err, output.err.count("\n")) == ("", True, 1), output.err


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (["topic", "list"], "topic ls"),
        (["topic", "describe"], "topic show"),
        (["group", "rm"], "group delete"),
        (["produce"], "send"),
        (["tail"], "consume"),
    ],
)
def test_a_name_that_other_tools_use_runs_ours(
    theirs: list[str], ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*theirs, "--help"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith(f"Usage: steelyard {ours} ")


@pytest.mark.parametrize(
    ("theirs", "meant"), [("consumer", "'consume' or 'group'"), ("status", "'doctor' or 'cluster'")]
)
def test_a_name_that_may_mean_two_of_ours_is_answered_with_both(
    theirs: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([theirs]) == ExitCode.USAGE
    assert f"Did you mean {meant}? See: steelyard --help" in capsys.readouterr().err


def test_help_and_the_version_can_be_asked_for_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    for words, reported in ((["help", "topic", "ls"], "Usage: steelyard topic ls"), (["version"], "steelyard ")):
        assert main(words) == ExitCode.DONE
        assert capsys.readouterr().out.startswith(reported)


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    output = capsys.readouterr().out
    assert all(f"  {noun} " in output for panel in COMMANDS.values() for noun in panel)
    assert "Examples:" in output


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["context"], ["pipeline", "run"]):
        assert main(words) == 0
        output = capsys.readouterr()
        assert (output.out.splitlines()[0], output.err) == (
            f"Usage: steelyard {' '.join(words)} [OPTIONS] COMMAND [ARGS]...",
            "",
        )


@pytest.mark.parametrize("noun", ["", *(noun for panel in COMMANDS.values() for noun in panel)])
def test_all_help_fits_into_80_columns(
    noun: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = [words for words, _ in commands() if "".join(words[:1]) == noun]
    assert asked
    for words in asked:
        assert main([*words, "--help"]) == 0
        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == [], words


def test_an_example_that_was_folded_is_what_it_was_for_a_shell() -> None:
    for example in (
        "steelyard consume orders --from first --exit-at-end --json | steelyard send orders-again --json",
        """echo '{"orders": 16, "audit": {"queues": 4, "may": "read"}}' | steelyard topic apply - --dry-run""",
        "steelyard completion bash > ~/.local/share/bash-completion/completions/steelyard",
        f"steelyard send orders --body {'x' * 90}",
    ):
        epilog = make_command("nothing", lambda: None, example).epilog
        assert epilog is not None
        lines = epilog.split("\n", 2)[2].strip()
        assert shlex.split(lines.replace("\\\n", " ")) == shlex.split(example)
