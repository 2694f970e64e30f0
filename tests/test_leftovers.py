"""The check at the end of a run finds what tests leave behind, of each kind, and fails the run."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

_ROOT = Path(__file__).parents[1]
_CONFTEST = """
from pathlib import Path
from tests import leftovers

leftovers._ROOT = Path(__file__).parent
leftovers._GRACE_S = 0.1

def pytest_configure(config):
    config.pluginmanager.register(leftovers.Leftovers(config))
"""
_HEAD = "import os, socket, subprocess, sys, tempfile, threading\nfrom pathlib import Path\nkept = []\n"
_SLEEPS = "[sys.executable, '-c', 'import time; time.sleep(600)']"
_QUIET = "stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
_LEAVES = {
    "process": f"kept.append(subprocess.Popen({_SLEEPS}, {_QUIET}))",
    "port": "kept.append(socket.create_server(('127.0.0.1', 0)))",
    "thread": "threading.Thread(target=threading.Event().wait, name='left-thread', daemon=True).start()",
    "file": "Path(__file__).with_name('left.txt').write_text('x')",
    "temporary file": "os.close(tempfile.mkstemp(prefix='left-')[0])",
}
_FINDS = {
    "process": r"^process (\d+): .*time\.sleep\(600\)",
    "port": r"^(?:gw0: )?port \d+$",
    "thread": r"^(?:gw0: )?thread left-thread$",
    "file": r"^file left\.txt$",
    "temporary file": r"^temporary file left-",
}


@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_what_is_left_behind_is_named_and_fails_the_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, said = _run(tmp_path, "".join(_test(kind, body) for kind, body in _LEAVES.items()), *words)
    left = {kind: re.findall(wanted, said, re.MULTILINE) for kind, wanted in _FINDS.items()}
    for pid in left["process"]:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    assert f"{len(_LEAVES)} passed" in said
    assert {kind: len(found) for kind, found in left.items()} == dict.fromkeys(_LEAVES, 1), said
    assert code == pytest.ExitCode.TESTS_FAILED


def test_a_run_that_leaves_nothing_passes(tmp_path: Path) -> None:
    ends = {
        "process": f"assert not subprocess.run([sys.executable, '-c', ''], {_QUIET}).returncode",
        "port": "socket.create_server(('127.0.0.1', 0)).close()",
        "thread": "thread = threading.Thread(target=int); thread.start(); thread.join()",
        "file": "left = Path(__file__).with_name('left.txt'); left.touch(); left.unlink()",
        "temporary file": "tempfile.TemporaryFile().close()",
    }
    assert ends.keys() == _LEAVES.keys()
    code, said = _run(tmp_path, "".join(_test(kind, body) for kind, body in ends.items()))
    assert (code, "left behind" in said) == (pytest.ExitCode.OK, False), said


def _test(kind: str, body: str) -> str:
    return f"def test_{kind.replace(' ', '_')}():\n    {body}\n"


def _run(directory: Path, tests: str, *words: str) -> tuple[int, str]:
    (directory / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (directory / "test_it.py").write_text(_HEAD + tests, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *words],
        cwd=directory,
        env={**environment, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
