"""Where the things lie that interop tests fetch and build: in the virtual environment, so that `make clean` takes them.

What was made has a name with the sum of what it was made of, so that another recipe is another folder, and a mark that
says it is whole. The source tree stays as it is.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

DONE = ".done"
"""The file that marks a folder as whole."""


class NotReady(Exception):
    """Something that the interop tests need is not there; the message is one sentence that says what to do."""


def home() -> Path:
    """Return the folder for everything that was fetched or built."""
    outside = sys.prefix == sys.base_prefix
    return Path(tempfile.gettempdir() if outside else sys.prefix) / "interop"


def digest(*files: Path) -> str:
    """Return a short sum of what is in some files."""
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def run_tool(
    tool: str,
    arguments: list[str],
    failure: str,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a tool and return what it said; raise NotReady with the end of that if it fails."""
    done = subprocess.run(
        [shutil.which(tool) or tool, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    if done.returncode:
        raise NotReady(f"{failure}; it says:\n{done.stdout.strip()[-2000:]}")
    return done.stdout
