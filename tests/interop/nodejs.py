"""Node's client `ali-ons`, installed once, and our program on top of it."""

import shutil
from pathlib import Path

from tests.interop.prepared import DONE, NotReady, digest, home, run_tool

NODE = "Node's client ali-ons 3.12.0"
_SOURCES = Path(__file__).parent / "node"
_PACKAGE = _SOURCES / "package.json"


def command() -> list[str]:
    """Return how the program is run; raise NotReady if its package was not installed."""
    node = shutil.which("node")
    if node is None or not (_folder() / DONE).exists():
        raise NotReady(f"{NODE} is not installed: run make interop with node and npm on the PATH")
    return [node, str(_SOURCES / "client.js"), str(_folder())]


def prepare() -> None:
    """Install the package, unless that was done."""
    folder = _folder()
    if (folder / DONE).exists():
        return
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        raise NotReady(f"{NODE} is left out: there is no {' and no '.join(missing)} on the PATH")
    print(f"installing {NODE}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_PACKAGE, folder)
    arguments = ["install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    run_tool("npm", arguments, f"{NODE} is left out: npm cannot install it", folder=folder)
    (folder / DONE).touch()


def _folder() -> Path:
    return home() / f"node-{digest(_PACKAGE)}"
