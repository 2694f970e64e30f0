"""The pages and pictures that are made from the code say what the code says now."""

from difflib import unified_diff

import pytest

from tests.docs.generate import ASKING_SPARK, BUILT, GENERATED
from tests.docs.generated.options_page import TABLES
from tests.docs.generated.sources import fields
from tests.tidy.tree import ROOT, complain

_SHOWN = 20
"""How many lines of a difference are shown."""


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.spark) if path in ASKING_SPARK else path for path in sorted(BUILT)]
)
def test_what_the_site_needs_can_be_written(path: str) -> None:
    assert len(GENERATED[path]().splitlines()) > 1_000


@pytest.mark.parametrize("path", [path for path in GENERATED if path not in BUILT])
def test_it_says_what_the_code_says(path: str) -> None:
    file = ROOT / path
    written = file.read_text(encoding="utf-8") if file.is_file() else ""
    wanted = GENERATED[path]()
    if written != wanted:
        changes = list(
            unified_diff(written.splitlines(), wanted.splitlines(), "the page", "the code", lineterm="", n=0)
        )
        complain([f"{path} has fallen behind the code: python -m tests.docs.generate", *changes[:_SHOWN]])


def test_every_option_is_explained() -> None:
    complain(
        f"{table.kind.__name__}.{field.name} says nothing: put a sentence below it"
        for table in TABLES
        for field in fields(table.kind)
        if not field.says
    )
