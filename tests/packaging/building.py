"""What the tests of the packages share: building them, and an environment that has what they ask for and no more."""

import subprocess
import sys
import venv
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import leftovers

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
        path = f"{self.directory / 'bin'}:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.directory), "COLUMNS": "80", **leftovers.mark()}


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


def bare(directory: Path, wheel: Path, *extras: str) -> Environment:
    """Make an environment with a wheel and what it needs; that is this one's, so that no index is asked."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    (packages,) = directory.glob("lib/python*/site-packages")
    made, first = Environment(directory), _unpacked(wheel)
    for each in (first, *_needed_by(first, extras)):
        # Links, so that nothing is compiled again.
        for name in {file.parts[0] for file in each.files or () if ".." not in file.parts}:
            if not (packages / name).exists():
                (packages / name).symlink_to(str(each.locate_file(name)))
        for script in each.entry_points.select(group="console_scripts"):
            path = directory / "bin" / script.name
            code = f"import sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
            path.write_text(f"#!{made.python}\n{code}", encoding="utf-8")
            path.chmod(0o755)
    return made


def _unpacked(wheel: Path) -> Distribution:
    """Unpack a wheel beside itself, unless it is, for all environments that have it."""
    packages = wheel.with_suffix("")
    if not packages.exists():
        with ZipFile(wheel) as archive:
            archive.extractall(packages)
    (metadata,) = packages.glob("*.dist-info")
    return Distribution.at(metadata)


def _needed_by(first: Distribution, extras: Collection[str]) -> Iterator[Distribution]:
    """Return all that a distribution needs, with these extras and no other, and what that needs."""
    seen: set[str] = set()
    waiting = [(first, {"", *extras})]
    while waiting:
        one, having = waiting.pop()
        for wanted in map(Requirement, one.requires or ()):
            name, when = canonicalize_name(wanted.name), wanted.marker
            if name in seen or (when is not None and not any(when.evaluate({"extra": extra}) for extra in having)):
                continue
            seen.add(name)
            found = distribution(name)
            waiting.append((found, {"", *wanted.extras}))
            yield found
