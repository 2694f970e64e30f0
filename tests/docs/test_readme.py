"""README typed from the top: its programs are saved under their names, its commands are typed, and what it shows comes.

What it shows of Spark runs in the session that tests with Spark share: tests/spark/test_docs_examples.py.
"""

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests import forkserver
from tests.docs.docs_pages import README, pages_of_docs, read
from tests.docs.shell_session import parts_of, type_along
from tests.tidy.tree import complain

_MAX_LINES, _SECONDS = 200, 300
_SPARK, _BEHIND = "\n## Spark: ", "\n## What only Steelyard has\n"
_SEARCHED = {
    "rebalance": "docs/explanation/balancing.md",
    "lag": "docs/how-to/troubleshoot.md",
    "offset": "docs/cli/offset.md",
    "heartbeat": "docs/explanation/balancing.md",
    "redelivery": "docs/how-to/handle-errors.md",
    "connection": "docs/how-to/troubleshoot.md",
    "failover": "docs/how-to/send.md",
    "latency": "docs/how-to/send.md",
    "idempotent": "docs/how-to/handle-errors.md",
}
"""Words that users of RocketMQ and Kafka search for, and the page that answers."""


@pytest.mark.process
@pytest.mark.timeout(_SECONDS)
def test_the_readme_typed_from_the_top(tmp_path: Path) -> None:
    text = read(README)
    before, spark, rest = text.partition(_SPARK)
    assert spark
    assert _BEHIND in rest
    tools, work = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    ours = shlex.join(forkserver.python())
    pytest_itself = f"{shlex.quote(sys.executable)} -m pytest -p no:cacheprovider"
    for name, program in {"steelyard": f"{ours} -m steelyard", "python": ours, "pytest": pytest_itself}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    work.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("STEELYARD_", "PYTEST_"))},
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "STEELYARD_CONTEXTS": str(tmp_path / "contexts.json"),
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }
    assert type_along(parts_of(README, before), work, environment)


def test_the_readme_is_short_and_says_the_words_of_the_field() -> None:
    text = read(README)
    assert len(text.splitlines()) <= _MAX_LINES
    complain(
        f"{page} does not say {word!r}, which people search for"
        for word, answer in _SEARCHED.items()
        for page in (README, answer)
        if word not in " ".join(read(page).lower().split())
    )
    assert set(_SEARCHED.values()) <= set(pages_of_docs())
