"""The page about reliability tells which planted bugs there are, and what found each."""

from tests.sim.recording import shown, table
from tests.tidy.tree import ROOT

from steelyard.sim.planted.catches import CATCHES


def test_the_page_lists_every_planted_bug_with_its_checker_and_seed() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert shown(page) == table(CATCHES), (
        "write it anew: steelyard sim --hunt --output json | python -m tests.sim.recording"
    )
