"""How to install stands in one place: docs/install.md for pages, steelyard.errors for messages.

README shows one of its commands. The tutorial types its own, and a test types along.
"""

import re
import tomllib
from collections.abc import Iterator

from tests.docs.docs_pages import README, TUTORIAL, read
from tests.tidy.tree import ROOT, Source, complain, fences, texts

_INSTALL = "docs/install.md"
_MESSAGES = "src/steelyard/errors.py"
_MAY_SAY_HOW = {_INSTALL, _MESSAGES, README, TUTORIAL}
_READ_BY_USERS = ("docs/", "examples/", "src/")

_SAYS_HOW = re.compile(r"\bpip\s+install\b")
_BY_ITS_NAME = re.compile(r"\bpip\s+install\s+(?:-\S+\s+)*['\"]?steelyard\b")


def test_how_to_install_stands_in_one_place() -> None:
    complain(line for source in texts() for line in install_complaints(source))


def test_readme_installs_as_the_page_does() -> None:
    section = read(README).partition("\n## Install\n")[2].partition("\n## ")[0]
    commands = [line for fence in fences(README, section) for line in fence.text.splitlines() if _SAYS_HOW.search(line)]
    assert commands
    assert all(each in read(_INSTALL) for each in commands)
    assert f"]({_INSTALL})" in section


def test_contributing_names_every_place_that_changes_once_it_is_published() -> None:
    (paragraph,) = (text for text in read("CONTRIBUTING.md").split("\n\n") if "Once the package is published" in text)
    assert set(re.findall(r"[\w/]+\.(?:py|md)\b", paragraph)) == {*_MAY_SAY_HOW, "tests/docs/test_install.py"}
    complain(f"{path} says no longer how to install" for path in _MAY_SAY_HOW if not _SAYS_HOW.search(read(path)))


def test_the_table_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| `(\w+)` \|", read(_INSTALL), re.MULTILINE)
    assert sorted(listed) == sorted(project["optional-dependencies"])


def test_another_way_to_install_is_seen() -> None:
    def complaints(path: str, text: str) -> list[str]:
        return list(install_complaints(Source(path, text)))

    by_name, from_clone = "run pip install\n  --quiet 'steelyard[dashboard]'", "run pip install -e '.[dashboard]'"
    assert not complaints(_INSTALL, by_name)
    for path in ("README.md", TUTORIAL, _MESSAGES, "docs/spark.md", "src/steelyard/otel.py"):
        (complaint,) = complaints(path, by_name)
        assert f"{path}:1" in complaint
        assert "is not published" in complaint
    assert not complaints("README.md", from_clone)
    assert not complaints(TUTORIAL, "pip install --quiet '../steelyard[dashboard]'")
    assert "link to" in complaints("docs/spark.md", f"words\n{from_clone}")[0]
    assert "how_to_install" in complaints("src/steelyard/otel.py", from_clone)[0]
    assert not complaints("tests/docs/test_install.py", by_name)


def install_complaints(source: Source) -> Iterator[str]:
    """Say where users read how to install, apart from the one place, or what does not work before a release."""
    if source.path == _INSTALL or not (source.path.startswith(_READ_BY_USERS) or source.path.endswith(".md")):
        return
    elsewhere = "call how_to_install" if source.path.startswith("src/") else f"name the extra and link to {_INSTALL}"
    for found in _SAYS_HOW.finditer(source.text):
        place = f"{source.path}:{source.text.count(chr(10), 0, found.start()) + 1}"
        if _BY_ITS_NAME.match(source.text, found.start()):
            yield f"{place} installs steelyard by its name, and it is not published"
        elif source.path not in _MAY_SAY_HOW:
            yield f"{place} says how to install: {elsewhere}"
