"""Whatever happens to a member within the promises of events.py, it keeps its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.balance.group.options import ConsumeMode
from tests.balance.chaos import Chaos

_CHOICES = st.lists(st.integers(0, 9_999), min_size=20, max_size=200)


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("mode", ConsumeMode)
@settings(max_examples=25, deadline=None)
@given(choices=_CHOICES, chunk=st.sampled_from([1, 3]))
def test_no_sequence_of_events_makes_a_member_break_its_rules(
    mode: ConsumeMode, ours: bool, choices: list[int], chunk: int
) -> None:
    chaos = Chaos(iter(choices), mode, ours=ours, chunk=chunk)
    chaos.run()
    chaos.be_kind()
