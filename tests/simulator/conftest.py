"""What all tests of the simulator share: the intervals of production, as `make sim` and child processes have them."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _production_intervals(whole_intervals: None) -> None:
    """Nothing here waits: a simulated second takes no time."""
