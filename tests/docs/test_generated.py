"""The pages and pictures that are made from the code say what the code says now."""

import pytest
from tests.docs.generate import GENERATED
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("path", GENERATED)
def test_it_says_what_the_code_says(path: str) -> None:
    file = ROOT / path
    is_fresh = file.is_file() and file.read_text(encoding="utf-8") == GENERATED[path]()
    assert is_fresh, f"{path} has fallen behind the code: python -m tests.docs.generate"
