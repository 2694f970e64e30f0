"""The clock that producers measure latencies by, stopped: how busy the machine is has no effect on what is avoided."""

from collections.abc import Callable

import pytest

from steelyard.net.clock import steady_ms

Advance = Callable[[int], None]
"""Lets so many milliseconds pass."""


@pytest.fixture
def advance(monkeypatch: pytest.MonkeyPatch) -> Advance:
    """Stop the clock of all producers, and give what advances it."""
    now_ms = steady_ms()

    def advance(by_ms: int) -> None:
        nonlocal now_ms
        now_ms += by_ms

    for module in ("prepare", "latency_report", "send_async", "send_blocking"):
        monkeypatch.setattr(f"steelyard.client.producer.{module}.steady_ms", lambda: now_ms)
    return advance
