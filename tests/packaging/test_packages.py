"""The wheel has what runs and no more; the sdist has the whole tree; the version stands in one place."""

import re
import shutil
import subprocess
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata

from steelyard import __version__
from tests.docs.command_tree import verbs
from tests.packaging.building import ROOT, Built

pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(240), pytest.mark.process]

_IN_THE_WHEEL = ("steelyard", "pyspark_rocketmq")
_NOT_SHIPPED = {"__pycache__"}
_VENDOR = ROOT / "src/steelyard/dashboard/static/vendor"
"""What others wrote, each package under its licence."""


_MANUAL_PAGE = f"steelyard-{__version__}.data/data/share/man/man1/steelyard.1"


def ours(directory: Path) -> set[str]:
    """Return the files of the packages as they lie in the tree."""
    return {
        str(path.relative_to(directory))
        for package in _IN_THE_WHEEL
        for path in (directory / package).rglob("*")
        if path.is_file() and not _NOT_SHIPPED.intersection(path.parts)
    }


def test_the_wheel_has_the_two_packages_and_nothing_else(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    names.remove(_MANUAL_PAGE)
    assert names == ours(ROOT / "src")
    assert {"steelyard/py.typed", "pyspark_rocketmq/py.typed", "steelyard/spark/log4j2.properties"} <= names
    assert any(name.endswith("per_minute.sql.template") for name in names)


def test_what_is_in_the_wheel_is_what_is_in_the_sdist(built: Built) -> None:
    with ZipFile(built.wheel) as wheel, tarfile.open(built.sdist) as sdist:
        top = built.sdist.name.removesuffix(".tar.gz")
        for name in wheel.namelist():
            if ".dist-info/" not in name and name != _MANUAL_PAGE:
                source = sdist.extractfile(f"{top}/src/{name}")
                assert source is not None
                assert source.read() == wheel.read(name), name


def test_the_sdist_has_the_tree_that_its_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    code = [
        path for place in ("src", "simulator", "tests", "bench", "examples") for path in (ROOT / place).rglob("*.py")
    ]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    beside = ["pyproject.toml", "constraints.txt", "Makefile", "LICENSE", ".gitignore", ".ci/run", ".github/zizmor.yml"]
    missing = {*beside, *(str(path.relative_to(ROOT)) for path in (*code, *pages))} - names
    assert missing == set()
    assert not [name for name in names if name.endswith(".pyc") or name.startswith((".venv", "steelyard-data"))]


def test_the_manual_page_names_every_command_and_every_option(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        raw = wheel.read(_MANUAL_PAGE)
    page = raw.decode().replace("\\-", "-")
    for verb in verbs():
        assert f'.SS "steelyard {" ".join(verb.words)} ' in page
        for name in (name for parameter in verb.command.params for name in parameter.opts if name.startswith("-")):
            assert name in page, f"steelyard {' '.join(verb.words)} {name}"
    if (groff := shutil.which("groff")) is not None:
        words = [groff, "-man", "-Kutf8", "-Tutf8", "-ww"]
        assert subprocess.run(words, input=raw, capture_output=True, check=True).stderr == b""


def test_a_wheel_says_what_it_is_and_needs(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        reported = Parser().parsestr(wheel.read(name).decode())
        scripts = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert (reported["Name"], reported["Version"]) == ("steelyard", __version__)
    assert reported["Requires-Python"] == ">=3.11"
    assert set(reported.get_all("Provides-Extra", [])) >= {
        *("fast", "lz4", "spark", "local", "dashboard", "otel", "testing", "all")
    }
    always = {line for line in reported.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert {re.split(r"[<>=!~ ]", line)[0] for line in always} == {"msgspec", "rich", "click"}
    assert "steelyard = steelyard.cli.main:main" in scripts
    assert "[pytest11]\nsteelyard = steelyard.testing.plugin\n" in scripts
    assert str(reported.get_payload()).startswith("# Steelyard")


def test_the_metadata_is_sound_and_the_wheel_has_every_licence(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        reported = Metadata.from_email(wheel.read(name))
        licences = name.replace("METADATA", "licenses/")
        texts = {
            path.removeprefix(licences): wheel.read(path) for path in wheel.namelist() if path.startswith(licences)
        }
    assert reported.license_expression == "Apache-2.0 AND MIT"
    vendored = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in _VENDOR.glob("LICENSE.*")}
    assert texts == {"LICENSE": (ROOT / "LICENSE").read_bytes(), **vendored}
    assert set(reported.license_files or ()) == set(texts)
    assert all(b"Copyright (c) 20" in text or b"Apache License" in text for text in vendored.values())
    packages = re.findall(
        r"^\| `[^`]+` \| (\w+) [\d.]+,", (_VENDOR / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {path.rpartition(".")[2] for path in vendored} == set(packages)


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    place = project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{__version__}"' in (ROOT / place).read_text(encoding="utf-8")
    again = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if re.search(rf"""["']{re.escape(__version__)}["']""", path.read_text(encoding="utf-8"))
    ]
    assert again == [place]


def test_all_has_what_users_may_want() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["all"] == ["steelyard[fast,lz4,spark,local,dashboard,otel,testing]"]


def test_the_quick_tests_need_nothing_without_a_wheel_for_musl() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    assert [name for name, group in groups.items() if any("lz4" in str(each) for each in group)] == ["whole"]


def test_whatever_a_group_asks_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [each for group in project["dependency-groups"].values() for each in group if isinstance(each, str)]
    asked += [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    names = {re.split(r"[<>=!~; \[]", line)[0].lower() for line in asked} - {"steelyard"}
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    assert [name for name in sorted(names) if f"\n{name}==" not in pinned] == []
