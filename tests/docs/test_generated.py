"""The pages and pictures that are made from the code say what the code says now."""

import pytest
from tests.docs.drawn.options_page import TABLES
from tests.docs.drawn.sources import fields
from tests.docs.generate import GENERATED
from tests.tidy.tree import ROOT, complain


@pytest.mark.parametrize("path", GENERATED)
def test_it_says_what_the_code_says(path: str) -> None:
    file = ROOT / path
    is_fresh = file.is_file() and file.read_text(encoding="utf-8") == GENERATED[path]()
    assert is_fresh, f"{path} has fallen behind the code: python -m tests.docs.generate"


def test_every_option_is_explained() -> None:
    complain(
        f"{table.kind.__name__}.{field.name} says nothing: put a sentence below it"
        for table in TABLES
        for field in fields(table.kind)
        if not field.says
    )
