"""`python -m tests.browser.scripts`: lint the dashboard's scripts, and check their types as JSDoc and tsc infer them.

The scripts are served as they are written: nothing is built. The tools are fetched from npm into the environment of the
other linters, and nothing else is kept of them. Where there is no npm this says so, and is no failure.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.tidy.tree import ROOT

_TOOLS = {"oxlint": "1.94.0", "typescript": "5.9.3"}
_SCRIPTS = ROOT / "src" / "steelyard" / "dashboard" / "static" / "js"
_TYPES = Path(__file__).with_name("types")
_TIMEOUT_S = 300


def _install(folder: Path) -> str | None:
    """Install the tools unless they are there; return why that is not possible."""
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm here"
    wanted = [f"{name}@{version}" for name, version in _TOOLS.items()]
    stamp = folder / f".ready-{'-'.join(wanted)}"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--no-save", "--no-package-lock", "--silent", "--prefix", str(folder), *wanted]
        try:
            done = subprocess.run(words, timeout=_TIMEOUT_S, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return f"npm did not install them within {_TIMEOUT_S} s"
        if done.returncode:
            return f"npm could not install them: {done.stderr.strip() or done.returncode}"
        stamp.touch()
    return None


def main(folder: Path) -> int:
    """Check the scripts; return the exit code."""
    problem = _install(folder)
    if problem is not None:
        sys.stdout.write(f"the dashboard's scripts are not linted: {problem}\n")
        return 0
    tools = folder / "node_modules" / ".bin"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copytree(_SCRIPTS, place / "js")
        # What others wrote is not checked: declarations stand in its place.
        shutil.copytree(_TYPES, place / "vendor")
        (place / "vendor" / "tsconfig.json").rename(place / "tsconfig.json")
        codes = [
            subprocess.run(words, cwd=place, timeout=_TIMEOUT_S, check=False).returncode
            for words in ([str(tools / "oxlint"), "--deny-warnings", "js"], [str(tools / "tsc"), "--project", "."])
        ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
