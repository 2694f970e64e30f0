"""The page about the life of a queue shows the table that the program runs by.

`python -m tests.balance.test_queue_transitions_page` writes it anew. The picture on it is one of those of tests/docs.
"""

import re
from pathlib import Path

from steelyard.balance.group.queue_transitions import TRANSITIONS

_PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-queue.md"
_PICTURE = "![The life of a queue at one member](pictures/life.svg)"
_DRAWN = re.compile(r"(?<=<!-- drawn from the table -->\n).*(?=\n<!-- end -->)", re.DOTALL)


def _drawn() -> str:
    rows = ["| state | what happens | what is done | where it may lead |", "|---|---|---|---|"]
    for (state, event), transition in TRANSITIONS.items():
        done = transition.apply.__name__.replace("_", " ")
        targets = ", ".join(target.value for target in transition.targets)
        rows.append(f"| {state.value} | {event.value} | {done} | {targets} |")
    return "\n".join([_PICTURE, "", *rows])


def test_the_page_shows_the_table_that_the_program_runs_by() -> None:
    found = _DRAWN.search(_PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == _drawn(), "write the page anew: python -m tests.balance.test_queue_transitions_page"


if __name__ == "__main__":
    text = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_DRAWN.sub(lambda _: _drawn(), text), encoding="utf-8")
