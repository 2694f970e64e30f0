"""Clusters have names: what is said on the command line counts first, and the file is its owner's alone."""

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.contexts import (
    ClusterContext,
    ClusterContexts,
    contexts_path,
    load_contexts,
    save_contexts,
    selected_context,
)
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import ClientOptions


@pytest.fixture(autouse=True)
def _own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CONTEXTS", str(tmp_path / "deep" / "contexts.json"))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("STEELYARD_CONTEXT", raising=False)


def test_what_is_nearer_counts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(ClientOptions().config()) == "localhost:9876"
    save_contexts(
        ClusterContexts(
            {"prod": ClusterContext("prod:1", "ops", "secret"), "eu": ClusterContext("eu:1", namespace="eu")}, "prod"
        )
    )
    assert str(ClientOptions().config()) == "prod:1"
    assert ClientOptions().config().access_key == "ops"
    monkeypatch.setenv("NAMESRV_ADDR", "near:1")
    assert str(ClientOptions().config()) == "near:1"
    assert ClientOptions().config().access_key is None
    assert (str(ClientOptions(context="eu").config()), ClientOptions(context="eu").config().namespace) == ("eu:1", "eu")
    # Keys of a context are not shown to another address.
    assert ClientOptions(namesrv=["said:1"]).config().access_key is None
    given = ClientOptions(namesrv=["said:1"], context="prod").config()
    assert (str(given), given.access_key) == ("said:1", "ops")


def test_only_its_owner_may_read_the_file() -> None:
    save_contexts(ClusterContexts({"prod": ClusterContext("prod:1", "ops", "secret")}))
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600
    assert [path.name for path in contexts_path().parent.iterdir()] == ["contexts.json"]
    assert load_contexts().clusters["prod"].secret_key == "secret"


def test_a_file_that_is_not_ours_is_reported_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    contexts_path().parent.mkdir()
    contexts_path().write_text('{"clusters": 3}', encoding="utf-8")
    assert main(["context", "ls"]) == ExitCode.USAGE
    assert "is not as `steelyard context` writes it" in capsys.readouterr().err
    assert main(["context", "add", "prod", "--namesrv", "a:1"]) == ExitCode.USAGE
    assert contexts_path().read_text(encoding="utf-8") == '{"clusters": 3}'


def test_the_first_one_is_chosen_and_a_forgotten_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "prod", "--namesrv", "a:1", "--namesrv", "b:2"]) == 0
    assert main(["context", "add", "eu", "--namesrv", "c:3"]) == 0
    assert str(ClientOptions().config()) == "a:1;b:2"
    capsys.readouterr()
    assert main(["context", "ls", "--json"]) == 0
    listed = {each["name"]: each["chosen"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert listed == {"eu": False, "prod": True}
    assert main(["context", "delete", "prod", "--yes"]) == 0
    assert selected_context() == ClusterContext()


def test_what_would_be_refused_later_is_refused_now(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for words, why in (
        (["add", "x"], "the address of 'x' is missing"),
        (["add", "x", "--namesrv", "nowhere"], "nowhere"),
        (["add", "x", "--namesrv", "a:1", "--access-key", "ops"], "without its secret"),
        (["use", "prod"], "there is no context 'prod'"),
        (["show"], "no context is chosen"),
    ):
        assert main(["context", *words]) == ExitCode.USAGE
        assert why in capsys.readouterr().err
    assert load_contexts() == ClusterContexts()
