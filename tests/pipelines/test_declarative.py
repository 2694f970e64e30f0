"""The project for Spark Declarative Pipelines: what is written, and, if asked for, that it runs and goes on.

Running it takes minutes, and packages that nothing else needs: `STEELYARD_SLOW=1` does it, in an environment of its own
if this one lacks them.
"""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from steelyard import Admin, Message, Producer
from steelyard.cli.main import main
from steelyard.errors import ConfigurationError
from steelyard.pipelines.declarative_template import render_project, write_project
from steelyard.serve.embedded import Cluster

_SLOW = "STEELYARD_SLOW"
_TOPICS = st.text("%|abzABZ019_-", min_size=1, max_size=127)
_ROOT = Path(__file__).resolve().parents[2]


def test_the_project_is_written_whole(tmp_path: Path) -> None:
    written = write_project(tmp_path / "lake", namesrv="mq-1:9876; mq-2:9876", topic="eu-orders")
    assert [path.relative_to(tmp_path / "lake").as_posix() for path in written] == [
        "README.md",
        "run.py",
        "spark-pipeline.yml",
        "transformations/messages.py",
        "transformations/per_minute.sql",
    ]
    settings = (tmp_path / "lake" / "spark-pipeline.yml").read_text()
    assert 'steelyard.namesrv: "mq-1:9876;mq-2:9876"' in settings
    assert 'steelyard.topic: "eu-orders"' in settings
    assert f'storage: "{(tmp_path / "lake" / "storage").resolve().as_uri()}"' in settings
    assert "CREATE MATERIALIZED VIEW eu_orders_per_minute" in written[-1].read_text()


def test_the_command_writes_it_and_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    assert main(["pipeline", "init", str(lake), "--topic", "orders", "--namesrv", "mq:9876"]) == 0
    shown = capsys.readouterr()
    assert str(lake / "spark-pipeline.yml") in shown.out
    assert "run.py dry-run" in shown.err
    assert 'steelyard.namesrv: "mq:9876"' in (lake / "spark-pipeline.yml").read_text()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write_project(tmp_path, namesrv="mq:9876", topic="orders")
    mine = tmp_path / "transformations" / "messages.py"
    mine.write_text("my own")
    (tmp_path / "README.md").unlink()
    with pytest.raises(ConfigurationError, match="exists, and is not overwritten"):
        write_project(tmp_path, namesrv="mq:9876", topic="orders")
    assert mine.read_text() == "my own"
    assert not (tmp_path / "README.md").exists()


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_project(tmp_path / "file" / "lake", namesrv="mq:9876", topic="orders")


@pytest.mark.parametrize("topic", ["", "orders;drop", 'or"ders', "or ders", "x" * 128, "$table"])
def test_a_name_that_no_topic_can_have_is_refused(topic: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a topic name"):
        render_project(Path("/lake"), namesrv="mq:9876", topic=topic)


@given(topic=_TOPICS)
def test_whatever_the_topic_is_called_the_files_are_sound(topic: str) -> None:
    texts = render_project(Path("/lake/with 'blanks' and $"), namesrv="mq:9876", topic=topic)
    for name in ("run.py", "transformations/messages.py"):
        ast.parse(texts[name])
    for line in texts["spark-pipeline.yml"].splitlines():
        if line.startswith(("  steelyard.", "storage:")):
            assert isinstance(json.loads(line.partition(": ")[2]), str)
    for name, text in texts.items():
        assert not Template.pattern.search(text.replace("$ ", "").replace(topic, "").replace("%24", "")), name


@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.skipif(_SLOW not in os.environ, reason=f"it takes minutes: {_SLOW}=1 runs a declarative pipeline twice")
def test_a_pipeline_runs_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    python = _with_pipelines(tmp_path)
    lake = tmp_path / "lake"
    with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 4)
        admin.topics.create("orders-index", 4)
        write_project(lake, namesrv=cluster.namesrv, topic="orders")
        _send(cluster.namesrv, 1_000)
        _run(python, lake, "dry-run")
        assert not list(lake.glob("warehouse/orders/*.parquet"))
        _run(python, lake, "run")
        assert (
            _places(lake)
            == admin.topics.describe("orders").messages
            == admin.topics.describe("orders-index").messages
            == 1_000
        )
        _send(cluster.namesrv, 500)
        _run(python, lake, "run")
        assert (
            _places(lake)
            == admin.topics.describe("orders").messages
            == admin.topics.describe("orders-index").messages
            == 1_500
        )
    minutes = parquet.read_table(lake / "warehouse" / "orders_per_minute")
    assert sum(minutes.column("messages").to_pylist()) == 1_500


def _with_pipelines(directory: Path) -> str:
    """Return a Python that has what declarative pipelines need: this one, or one made beside it."""
    if all(find_spec(package) for package in ("grpc", "pandas", "yaml", "zstandard")):
        return sys.executable
    home = directory / "venv"
    venv.create(home)
    python = home / "bin" / "python"
    # It sees all that is installed here, and gets what is missing.
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    own.joinpath("beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{_ROOT / 'src'}\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pyspark[pipelines]"], check=True
    )
    return str(python)


def _run(python: str, lake: Path, verb: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run([python, "run.py", verb], cwd=lake, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Run is COMPLETED" in done.stdout + done.stderr


def _send(namesrv: str, number: int) -> None:
    with Producer(namesrv, group="shop") as producer:
        producer.send_many([Message("orders", b"x" * 20, keys=f"order-{each}") for each in range(number)])


def _places(lake: Path) -> int:
    """Count the messages of the table; none may be there twice."""
    table = parquet.read_table(lake / "warehouse" / "orders", columns=["broker", "queue_id", "offset"])
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert len(rows) == len(set(rows))
    return len(rows)
