"""The site can be built, has every page, and needs nothing from the internet."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.docs_pages import pages_of_docs
from tests.docs.generate import BUILT
from tests.tidy.tree import ROOT, complain

_SECONDS = 300
_FROM_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


def test_every_page_has_a_place_in_the_navigation() -> None:
    named = navigation((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert len(named) == len(set(named))
    there = {page.removeprefix("docs/") for page in {*pages_of_docs(), *BUILT}}
    complain(
        [
            *(f"mkdocs.yml names {page}, which does not exist" for page in sorted(set(named) - there)),
            *(f"docs/{page} has no place in the navigation of mkdocs.yml" for page in sorted(there - set(named))),
        ]
    )


@pytest.mark.timeout(_SECONDS)
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed; for the site: make docs")
def test_the_site_is_built_without_a_warning_and_needs_nothing_from_the_internet(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not built.returncode, built.stderr
    complain(
        f"{page.name} fetches {found[0]}"
        for page in sorted((tmp_path / "site").rglob("*.html"))
        for found in _FROM_ELSEWHERE.finditer(page.read_text(encoding="utf-8"))
    )


def navigation(text: str) -> list[str]:
    """Return the pages that the navigation of mkdocs.yml names."""
    return re.findall(r"^\s*- [^\n]*?: ([\w./-]+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
