"""The page about reliability lists all mutants, and what found each."""

from simulator.mutants.hunt import CATCHES
from tests.simulator.record_catches import shown, table
from tests.tidy.tree import ROOT


def test_the_page_lists_every_planted_bug_with_its_checker_and_seed() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert shown(page) == table(CATCHES), (
        "write it anew: python -m simulator --hunt --output json | python -m tests.simulator.record_catches"
    )
