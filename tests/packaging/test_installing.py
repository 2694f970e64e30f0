"""`pip install` of the wheel, with what an index gives, into an empty environment of every Python that is here.

It asks an index and takes a while, so it runs with STEELYARD_SLOW=1; test_bare_environment.py is its short version.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard import __version__
from tests.packaging.building import ROOT, Built, Environment, build
from tests.packaging.using import first_example, up

pytestmark = [
    pytest.mark.xdist_group("packaging"),
    pytest.mark.timeout(600),
    pytest.mark.process,
    pytest.mark.skipif("STEELYARD_SLOW" not in os.environ, reason="asks an index, and takes a while: STEELYARD_SLOW=1"),
]


def interpreters() -> list[str]:
    """Return the Pythons that are here and new enough, one of each version: on the path, or where pyenv keeps them."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    found: dict[str, str] = {}
    for name in ("python3.11", "python3.12", "python3.13", "python3.14"):
        for place in (shutil.which(name), *(place / name for place in kept)):
            if place is not None and Path(place).exists() and runs(str(place)):
                found.setdefault(name, str(place))
    return list(found.values())


def runs(python: str) -> bool:
    """Say whether it does: what pyenv puts on the path may be for a version that is not chosen."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "python", interpreters() if "STEELYARD_SLOW" in os.environ else [sys.executable], ids=lambda path: Path(path).name
)
def test_pip_installs_it_and_the_first_example_sends(built: Built, tmp_path: Path, python: str) -> None:
    directory = tmp_path / "environment"
    subprocess.run([python, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(built.wheel)], check=True, cwd=tmp_path)
    environment = Environment(directory)
    output = subprocess.run(
        [str(directory / "bin" / "steelyard"), "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert output.stdout == f"steelyard {__version__}\n"
    with up(environment, tmp_path) as namesrv:
        done = environment.run("-c", first_example(namesrv), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        words = ("consume", "orders", "--namesrv", namesrv, "--from", "first", "--exit-at-end", "--json")
        seen = environment.run("-m", "steelyard", *words, cwd=tmp_path)
    bodies = {json.loads(line)["body"] for line in seen.stdout.splitlines()}
    assert bodies == {f'{{"id": {number}}}' for number in range(8)}


def test_an_unpacked_sdist_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    shutil.unpack_archive(built.sdist, tmp_path, filter="data")
    again = build(tmp_path / "dist", tmp_path / built.sdist.name.removesuffix(".tar.gz"))
    assert again.wheel.read_bytes() == built.wheel.read_bytes()


def test_a_clean_clone_builds_in_isolation(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("there is no clone to clone")
    clone = tmp_path / "clone"
    subprocess.run([git, "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True)
    subprocess.run([sys.executable, "-m", "build", str(clone)], check=True, capture_output=True)
    assert len(list((clone / "dist").glob(f"steelyard-{__version__}*"))) == 2
