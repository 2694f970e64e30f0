"""Clusters have names: what is said on the command line counts first, and the file is its owner's alone."""

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from steelyard.cli.frame.contexts import Context, Contexts, context_in_use, contexts_path, load_contexts, save_contexts
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.where import Where
from steelyard.cli.main import main


@pytest.fixture(autouse=True)
def _own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CONTEXTS", str(tmp_path / "deep" / "contexts.json"))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("STEELYARD_CONTEXT", raising=False)


def test_what_is_nearer_counts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(Where().connect()) == "localhost:9876"
    save_contexts(Contexts({"prod": Context("prod:1", "ops", "secret"), "eu": Context("eu:1", namespace="eu")}, "prod"))
    assert str(Where().connect()) == "prod:1"
    assert Where().connect().access_key == "ops"
    monkeypatch.setenv("NAMESRV_ADDR", "near:1")
    assert str(Where().connect()) == "near:1"
    assert Where().connect().access_key is None
    assert (str(Where(context="eu").connect()), Where(context="eu").connect().namespace) == ("eu:1", "eu")
    # Keys of a context are not shown to another address.
    assert Where(namesrv=["said:1"]).connect().access_key is None
    said = Where(namesrv=["said:1"], context="prod").connect()
    assert (str(said), said.access_key) == ("said:1", "ops")


def test_only_its_owner_may_read_the_file() -> None:
    save_contexts(Contexts({"prod": Context("prod:1", "ops", "secret")}))
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600
    assert [path.name for path in contexts_path().parent.iterdir()] == ["contexts.json"]
    assert load_contexts().clusters["prod"].secret_key == "secret"


def test_a_file_that_is_not_ours_is_said_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    contexts_path().parent.mkdir()
    contexts_path().write_text('{"clusters": 3}', encoding="utf-8")
    assert main(["context", "ls"]) == Exit.USAGE
    assert "is not as `steelyard context` writes it" in capsys.readouterr().err
    assert main(["context", "add", "prod", "--namesrv", "a:1"]) == Exit.USAGE
    assert contexts_path().read_text(encoding="utf-8") == '{"clusters": 3}'


def test_the_first_one_is_chosen_and_a_forgotten_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "prod", "--namesrv", "a:1", "--namesrv", "b:2"]) == 0
    assert main(["context", "add", "eu", "--namesrv", "c:3"]) == 0
    assert str(Where().connect()) == "a:1;b:2"
    capsys.readouterr()
    assert main(["context", "ls", "--json"]) == 0
    listed = {each["name"]: each["chosen"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert listed == {"eu": False, "prod": True}
    assert main(["context", "delete", "prod", "--yes"]) == 0
    assert context_in_use() == Context()


def test_what_would_be_refused_later_is_refused_now(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for words, why in (
        (["add", "x"], "where 'x' is was not said"),
        (["add", "x", "--namesrv", "nowhere"], "nowhere"),
        (["add", "x", "--namesrv", "a:1", "--access-key", "ops"], "without its secret"),
        (["use", "prod"], "there is no context 'prod'"),
        (["show"], "no context is chosen"),
    ):
        assert main(["context", *words]) == Exit.USAGE
        assert why in capsys.readouterr().err
    assert load_contexts() == Contexts()
