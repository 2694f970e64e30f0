"""The page's files: small, ours, in two languages, and nothing from elsewhere."""

import re
from itertools import chain
from pathlib import Path

import pytest

from steelyard.dashboard.server import Dashboard
from steelyard.dashboard.static_files import STATIC_DIRECTORY, asset_version, load_files
from tests.dashboard.http_client import http_request

_MOST_BYTES = 150 * 1024
_SCRIPTS = sorted(path for path in (STATIC_DIRECTORY / "js").rglob("*.js"))
_WORDS = sorted((STATIC_DIRECTORY / "js" / "i18n").glob("*.js"))
_STRING = r'"((?:[^"\\]|\\.)*)"'
_NOT_WORDS = re.compile(
    r"innerHTML|outerHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|insertAdjacentHTML"
)


def _tables() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {"en": {}, "zh": {}}
    for path in _WORDS:
        text = path.read_text(encoding="utf-8")
        _, english, chinese = re.split(r"\b(?:en|zh): \{", text)
        for name, part in (("en", english), ("zh", chinese)):
            for key, value in re.findall(rf"{_STRING}:\s*{_STRING}", part):
                assert key not in tables[name], f"{key} stands twice in {name}"
                tables[name][key] = value
    return tables


def test_all_of_it_is_small() -> None:
    assert sum(len(file.gzipped) for file in load_files().values()) <= _MOST_BYTES


def test_both_languages_say_the_same_things() -> None:
    tables = _tables()
    assert tables["en"].keys() == tables["zh"].keys()
    for key, english in tables["en"].items():
        holes = set(re.findall(r"\{(\w+)\}", english))
        assert set(re.findall(r"\{(\w+)\}", tables["zh"][key])) <= holes, key


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.relative_to(STATIC_DIRECTORY).as_posix())
def test_every_word_that_a_script_asks_for_is_there(path: Path) -> None:
    known, text = _tables()["en"], path.read_text(encoding="utf-8")
    missing = {key for key in re.findall(r'\bt\("([^"]+)"', text) if key not in known}
    prefixes = {
        part for part in re.findall(r"\bt\(`([^`$]+)\$", text) if not any(key.startswith(part) for key in known)
    }
    assert not missing | prefixes


def test_no_word_is_kept_that_nobody_says() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS if path.parent.name != "i18n")
    found = set(re.findall(_STRING, text))
    begun = tuple(
        chain.from_iterable(re.findall(pattern, text) for pattern in (r"`([\w.]+\.)\$\{", r'"([\w.]+\.)" \+'))
    )
    assert not [key for key in _tables()["en"] if key not in found and not key.startswith(begun)]


def test_scripts_make_no_markup_of_texts() -> None:
    for path in _SCRIPTS:
        assert not _NOT_WORDS.search(path.read_text(encoding="utf-8")), path


def test_nothing_comes_from_elsewhere() -> None:
    for name, file in load_files().items():
        if name.startswith("vendor/") or name == "icon.svg":
            continue
        assert not re.search(rb"https?://|//[a-z]+\.[a-z]", file.plain), name


def test_files_come_compressed_and_are_not_sent_twice(dashboard: Dashboard) -> None:
    first = http_request(dashboard, "/static/vendor/uplot.js", headers={"Accept-Encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    again = http_request(dashboard, "/static/vendor/uplot.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    plain = http_request(dashboard, "/static/vendor/uplot.js")
    assert "content-encoding" not in plain.headers
    assert plain.body == (STATIC_DIRECTORY / "vendor" / "uplot.js").read_bytes()


def test_a_browser_keeps_the_files_of_an_edition_and_asks_for_no_other(dashboard: Dashboard) -> None:
    shown = http_request(dashboard, "/", headers={"Authorization": f"Bearer {dashboard.options.token}"})
    assert shown.headers["cache-control"] == "no-cache"
    named = re.findall(rb'(?:src|href)="(/static/[^"]+)"', shown.body)
    assert named
    assert all(path.startswith(f"/static/{asset_version()}/".encode()) for path in named)
    kept = http_request(dashboard, f"/static/{asset_version()}/js/main.js")
    assert kept.headers["cache-control"].endswith("immutable")
    assert kept.body == (STATIC_DIRECTORY / "js" / "main.js").read_bytes()
    assert http_request(dashboard, "/static/edition-000000000000/js/main.js").status == 404
