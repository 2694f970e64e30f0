import pytest

from steelyard.cli.demo import main


def test_the_demo_shows_the_worked_examples_and_that_sticky_moves_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["16", "x", "3", "1" * 6 + "2" * 5 + "3" * 5, "6/5/5"] in rows
    assert ["7", "x", "2", "1111222", "4/3"] in rows
    changes = {" ".join(row[:2]): row[2:] for row in rows if row[:2] in (["c4", "joins"], ["c2", "leaves"])}
    assert len(changes) == 2
    for _, average_moved, _, sticky_moved, least in changes.values():
        assert int(sticky_moved) == int(least) < int(average_moved)
