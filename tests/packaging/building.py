"""What the tests of the packages share: building them, and an environment that has what they ask for and no more."""

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["ROOT", "Built", "Environment", "bare", "build"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Built:
    """A wheel, and the sdist that it was built from."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run its Python with these words."""
        command = [str(self.python), *words]
        return subprocess.run(command, cwd=cwd, env=self.variables, capture_output=True, text=True, check=False)

    @property
    def variables(self) -> dict[str, str]:
        """What is in the environment of its processes: nothing of ours that would show them this tree."""
        return {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin", "HOME": str(self.directory), "COLUMNS": "80"}


def build(into: Path, source: Path = ROOT) -> Built:
    """Build the sdist of a tree, and the wheel out of that, as `make dist` does it."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return Built(wheel, sdist)


def bare(directory: Path, wheel: Path) -> Environment:
    """Make an environment with a wheel and what it needs; that is taken from this one, so that no index is asked."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    (packages,) = directory.glob("lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    for needed in _needed_by(_unpacked(packages)):
        for file in needed.files or ():
            source, target = Path(str(file.locate())), packages / str(file)
            if ".." not in file.parts and source.suffix != ".pyc":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    return Environment(directory)


def _unpacked(packages: Path) -> Distribution:
    (metadata,) = packages.glob("steelyard-*.dist-info")
    return Distribution.at(metadata)


def _needed_by(first: Distribution) -> Iterator[Distribution]:
    """Return all that a distribution needs, without any extra, and what that needs."""
    seen: set[str] = set()
    waiting = [first]
    while waiting:
        for line in waiting.pop().requires or ():
            wanted = Requirement(line)
            name = canonicalize_name(wanted.name)
            if name in seen or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})):
                continue
            seen.add(name)
            found = distribution(name)
            waiting.append(found)
            yield found
