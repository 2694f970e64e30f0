"""Every Python example of a page runs as it stands, or says on the line above why it does not.

Pages about Spark are run where a session is: tests/spark/test_docs_examples.py. README and the tutorial are typed from
the top: test_readme.py, test_tutorial.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.serve.embedded import Cluster
from tests.docs.docs_pages import TYPED, needs_spark, read
from tests.docs.python_examples import has_tests, page_complaints, python_fences
from tests.tidy.tree import complain, pages

_PAGES = [
    pytest.param(page, marks=pytest.mark.process) if has_tests(page, read(page)) else page
    for page in pages()
    if page not in TYPED and python_fences(page, read(page)) and not needs_spark(page)
]


@pytest.fixture
def namesrv() -> Iterator[str]:
    """Run a cluster of two brokers, which no other page has seen."""
    with Cluster(brokers=2) as cluster:
        yield cluster.namesrv


@pytest.mark.parametrize("page", _PAGES)
def test_every_example_runs_or_says_why_not(page: str, namesrv: str, tmp_path: Path) -> None:
    complain(page_complaints(page, read(page), namesrv, tmp_path))


def test_a_broken_example_is_seen(tmp_path: Path) -> None:
    def complaints(text: str) -> list[str]:
        return page_complaints("page.md", text, "127.0.0.1:1", tmp_path)

    assert not complaints("```python\nprint(1)\n```\n\n```console\n$ nothing\n```\n```text\nfree\n```")
    assert not complaints("<!-- not run: needs a moon -->\n```python\n1 / 0\n```")
    assert "needs a reason" in complaints("<!-- not run: -->\n```python\n1 / 0\n```")[0]
    assert "page.md:4" in complaints("words\n\n```python\n1 / 0\n```")[0]
    assert not complaints("```python\nprint('a')\n```\n<!-- prints -->\n```text\na\n```")
    assert "prints 'a'" in complaints("```python\nprint('a')\n```\n<!-- prints -->\n```text\nb\n```")[0]
    assert not complaints("```python\n>>> 1 + 1\n2\n```")
    assert "page.md:1" in complaints("```python\n>>> 1 + 1\n3\n```")[0]
    assert "ends the program" in complaints("```python\nraise SystemExit\n```")[0]
    assert "is no Python" in complaints("```python\nif:\n```")[0]
    assert "page.md:3 is never closed" in complaints("words\n\n```python\n1 / 0\n")[0]


def test_a_page_is_one_namespace_and_its_address_is_that_of_the_cluster(tmp_path: Path) -> None:
    text = "```python\nx = 'localhost:9876'\n```\n\n```python\nassert x == '127.0.0.1:1'\n```"
    assert not page_complaints("page.md", text, "127.0.0.1:1", tmp_path)


@pytest.mark.process
def test_tests_of_a_page_are_run_by_pytest(tmp_path: Path) -> None:
    def complaints(text: str) -> list[str]:
        return page_complaints("page.md", text, "127.0.0.1:1", tmp_path)

    assert not complaints("```python\ndef test_it():\n    assert True\n```")
    assert "1 failed" in complaints("```python\ndef test_it():\n    assert not 1\n```")[0]
