"""The wheel where nothing else is: it serves, sends and helps, and what needs an extra says which."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from steelyard import __version__
from steelyard.errors import how_to_install
from tests.packaging.building import ROOT, Environment
from tests.packaging.using import first_example, up

pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(240), pytest.mark.process]

_NEEDS_MORE = (
    "steelyard.spark",
    "steelyard.pipelines",
    "steelyard.testing.plugin",
    "steelyard.otel",
    "steelyard.dashboard.",
    "steelyard.wire.zstd",
    "pyspark_rocketmq",
)
_YET_PLAIN = ("steelyard.dashboard.options", "steelyard.dashboard.server")
"""What these print names the extra that the dashboard needs."""


@pytest.fixture(scope="module")
def namesrv(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a cluster from the wheel."""
    with up(environment, tmp_path_factory.mktemp("up")) as address:
        yield address


def test_it_serves_and_the_first_example_sends(environment: Environment, tmp_path: Path) -> None:
    with up(environment, tmp_path) as namesrv:
        done = environment.run("-c", first_example(namesrv), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("orders@broker-0:")
        words = ("consume", "orders", "--namesrv", namesrv, "--from", "first", "--exit-at-end", "--json")
        seen = environment.run("-m", "steelyard", *words, cwd=tmp_path)
        assert (seen.returncode, seen.stderr) == (0, "")
        bodies = {json.loads(line)["body"] for line in seen.stdout.splitlines()}
        assert bodies == {f'{{"id": {number}}}' for number in range(8)}


def test_it_helps_and_says_its_version(environment: Environment, tmp_path: Path) -> None:
    helped = environment.run("-m", "steelyard", "--help", cwd=tmp_path)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "steelyard up --brokers 2" in helped.stdout
    version = environment.run("-m", "steelyard", "--version", cwd=tmp_path)
    assert version.stdout == f"steelyard {__version__}\n"
    asked = "from importlib.metadata import version; print(version('steelyard'))"
    assert environment.run("-c", asked, cwd=tmp_path).stdout == f"{__version__}\n"


def test_every_noun_helps(environment: Environment, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from steelyard.cli.main import COMMANDS, main\n"
        "sys.exit(any(main([noun, '--help']) for panel in COMMANDS.values() for noun in panel))"
    )
    done = environment.run("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_it_drags_nothing_along(environment: Environment, tmp_path: Path) -> None:
    # Some systems bring modules into every Python that starts, Debian its apport_python_hook: what was there before
    # is no doing of ours.
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import steelyard\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    loaded = set(environment.run("-c", code, cwd=tmp_path).stdout.split())
    assert {name for name in loaded if not name.startswith("_")} == {"steelyard", "msgspec"}


def test_every_module_that_needs_no_extra_can_be_imported(environment: Environment, tmp_path: Path) -> None:
    modules = sorted(
        str(path.relative_to(ROOT / "src").with_suffix("")).replace("/", ".").removesuffix(".__init__")
        for path in (ROOT / "src").rglob("*.py")
    )
    asked = [name for name in modules if name in _YET_PLAIN or not name.startswith(_NEEDS_MORE)]
    code = f"import importlib\nfor name in {asked!r}:\n    importlib.import_module(name)\n"
    done = environment.run("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


_SENTENCES = {
    "from steelyard.dashboard.server import Dashboard; Dashboard()": (
        f"dashboards need a package that is not installed; {how_to_install('dashboard')}"
    ),
    "import steelyard.otel": (f"spans of OpenTelemetry need a package that is not installed; {how_to_install('otel')}"),
    "from steelyard.spark.spark_session import session; session()": (
        f"Spark sessions need a package that is not installed; {how_to_install('spark')}"
    ),
    "from steelyard.wire.compression import compress, Compression; compress(b'', Compression.LZ4)": (
        f"LZ4 bodies need a package that is not installed; {how_to_install('lz4')}"
    ),
}
if sys.version_info < (3, 14):
    _SENTENCES["from steelyard.wire.compression import compress, Compression; compress(b'', Compression.ZSTD)"] = (
        f"zstd bodies need a package that is not installed; {how_to_install('fast')}"
    )


@pytest.mark.parametrize("code", _SENTENCES)
def test_what_needs_an_extra_names_it(environment: Environment, tmp_path: Path, code: str) -> None:
    done = environment.run("-c", code, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == f"steelyard.errors.MissingExtra: {_SENTENCES[code]}"


def test_a_cluster_without_the_dashboard_extra_says_how_to_install_it(environment: Environment, tmp_path: Path) -> None:
    command = [str(environment.python), "-m", "steelyard", "up", "--port", "0", "--memory"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment.variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        output = list(takewhile(lambda line: not line.startswith("ready"), process.stdout))
        process.terminate()
    assert output[-1] == f"dashboard    none; to have one, {how_to_install('dashboard')}\n"


@pytest.mark.parametrize("job", ["archive", "aggregate", "replay", "balance"])
def test_a_pipeline_without_spark_is_refused_in_one_line(
    environment: Environment, namesrv: str, tmp_path: Path, job: str
) -> None:
    words = {
        "archive": ("--topic", "orders", "--to", "lake"),
        "aggregate": ("--topic", "orders", "--sql", "SELECT count(*) FROM messages"),
        "replay": ("--from", "lake", "--to-topic", "orders"),
        "balance": ("--topic", "orders", "--group", "billing"),
    }
    done = environment.run(
        *("-m", "steelyard", "pipeline", "run", job, "--namesrv", namesrv, *words[job]), cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"need a package that is not installed; {how_to_install('spark')}\n")
