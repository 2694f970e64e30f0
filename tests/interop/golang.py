"""Apache's Go client, and our program on top of it, built once."""

import shutil
from pathlib import Path

from tests.interop.prepared import DONE, NotReady, digest, home, run_tool

GO = "Go's client 2.1.2"
_SOURCES = Path(__file__).parent / "go"


def command() -> list[str]:
    """Return how the program is run; raise NotReady if it was not built."""
    if not (_folder() / DONE).exists():
        raise NotReady(f"{GO} is not built: run make interop with Go on the PATH")
    return [str(_program())]


def prepare() -> None:
    """Fetch what the program needs and build it, unless that was done."""
    if (_folder() / DONE).exists():
        return
    if shutil.which("go") is None:
        raise NotReady(f"{GO} is left out: there is no go on the PATH")
    print(f"building our program on {GO}", flush=True)
    # The sums of what is fetched are in go.sum: nothing else may be built in.
    arguments = ["build", "-mod=readonly", "-trimpath", "-o", str(_program()), "."]
    run_tool("go", arguments, f"{GO} is left out: go cannot build our program on it", folder=_SOURCES)
    (_folder() / DONE).touch()


def _folder() -> Path:
    names = [*_SOURCES.glob("*.go"), _SOURCES / "go.mod", _SOURCES / "go.sum"]
    return home() / f"go-{digest(*sorted(names))}"


def _program() -> Path:
    return _folder() / "client"
