"""Where something is missing that is always there: a stream, a home directory, an encoding, a file that can be read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.contexts import ClusterContexts, contexts_path, load_contexts, save_contexts
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.input_files import read_json_objects
from steelyard.cli.shared.output import Output, OutputFormat, TableColumn
from steelyard.errors import ConfigurationError
from steelyard.net.addresses import parse_address
from steelyard.serve.embedded import Cluster


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "code", "answer"),
    [
        ("topic ls >&-", 0, ""),
        ("topic ls -o json 2>&-", 0, "[]\n"),
        ("topic show orders 2>&-", 3, ""),
        ("topic ls -o json <&-", 0, "[]\n"),
        ("topic ls -o json <&- >&- 2>&-", 0, ""),
        ("topic apply - <&-", 2, ""),
        ("--help 2>&- >&-", 0, ""),
    ],
)
def test_a_stream_that_was_closed_is_one_that_leads_nowhere(line: str, code: int, answer: str) -> None:
    with Cluster() as cluster:
        done = subprocess.run(
            ["/bin/sh", "-c", f"exec {sys.executable} -m steelyard {line}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "NAMESRV_ADDR": cluster.namesrv},
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (code, answer)


def test_a_user_without_a_home_has_no_contexts_and_learns_where_to_keep_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("STEELYARD_CONTEXTS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert load_contexts() == ClusterContexts()
    with pytest.raises(ConfigurationError, match="no home directory"):
        contexts_path()


@pytest.mark.parametrize(
    "text", [b'{"clusters": {"\xff": {}}}', b"[" * 100_000, b" " * 1_100_000, b'{"chosen":' * 9000]
)
def test_a_file_of_contexts_that_is_something_else_is_one_sentence(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "contexts.json").write_bytes(text)
    monkeypatch.setenv("STEELYARD_CONTEXTS", str(tmp_path / "contexts.json"))
    assert main(["context", "ls"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_file_of_contexts_that_cannot_be_put_in_place_leaves_no_keys_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contexts.json" / "full").mkdir(parents=True)
    monkeypatch.setenv("STEELYARD_CONTEXTS", str(tmp_path / "contexts.json"))
    with pytest.raises(ConfigurationError, match="cannot be written"):
        save_contexts(ClusterContexts())
    assert [each.name for each in tmp_path.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize("name", ["", "a\x1b[31mb", "a\nb", "\udcff"])
def test_a_name_that_nobody_can_type_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEELYARD_CONTEXTS", str(tmp_path / "contexts.json"))
    assert main(["context", "add", name, "--namesrv", "mq:9876"]) == ExitCode.USAGE
    assert "is no name for a cluster" in capsys.readouterr().err
    assert not (tmp_path / "contexts.json").exists()


@pytest.mark.parametrize("address", ["\udcff:9876", "a b:9876", "a\n:9876", f"mq:{'9' * 9000}", "mq:000009876"])
def test_an_address_that_cannot_be_one_is_refused_before_anything_is_connected(address: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        parse_address(address)


@pytest.mark.process
@pytest.mark.parametrize("form", list(OutputFormat))
def test_a_terminal_that_shows_little_is_no_failure(form: OutputFormat, tmp_path: Path) -> None:
    code = (
        "from steelyard.cli.shared.output import Output, OutputFormat, TableColumn\n"
        f"out = Output(OutputFormat({form.value!r}))\n"
        "out.print_rows([TableColumn('name')], [{'name': 'Zoë 😀'}])\n"
        "out.print_result('Zoë 😀', name='Zoë 😀')\n"
    )
    script = tmp_path / "out.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    wanted = b"Zo\\xeb \\U0001f600" if form is OutputFormat.TABLE else "Zoë 😀".encode()
    assert done.stdout.count(wanted) == 2


def test_a_csv_has_commas_quotes_and_lines_within_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    Output(OutputFormat.CSV).print_rows(
        [TableColumn("a"), TableColumn("b")], [{"a": 'x,"y"\nz', "b": ["1,2"]}, {"a": None, "b": True}]
    )
    assert capsys.readouterr().out == 'a,b\n"x,""y""\nz","[""1,2""]"\n,true\n'


def test_who_wants_no_color_gets_plain_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for value, is_plain in (("1", True), ("", False)):
        monkeypatch.setenv("NO_COLOR", value)
        Output().print_rows([TableColumn("name")], [{"name": "orders"}])
        assert ("\x1b" not in capsys.readouterr().out) is is_plain


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(ConfigurationError, match="more than 64 MiB"):
        read_json_objects("/dev/zero", "write JSON")
