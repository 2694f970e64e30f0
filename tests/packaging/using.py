"""What somebody does first with a fresh installation: run a cluster, and send with the first program of README."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packaging.building import ROOT, Environment
from tests.tidy.tree import fences


@contextmanager
def up(environment: Environment, cwd: Path) -> Iterator[str]:
    """Run a cluster, and return where its name server is; it has to end well and has nothing to complain of."""
    command = [str(environment.python), "-m", "steelyard", "up", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=cwd, env=environment.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["namesrv"]
        finally:
            process.terminate()
            rest, complaints = process.communicate()
        assert (process.returncode, rest, complaints) == (0, "", ""), f"{process.returncode} {rest}{complaints}"


def first_example(namesrv: str) -> str:
    """Return the program that README sends with, for a cluster that is somewhere else."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    code = next(fence.text for fence in fences("README.md", page) if "producer.send(" in fence.text)
    return code.replace("localhost:9876", namesrv)
