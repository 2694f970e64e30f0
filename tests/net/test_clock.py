"""The time of day as servers have it: it follows the machine's, through sleep and jumps, and never goes back."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.net.clock import DayClock

_SECOND_NS = 1_000_000_000
_MS_NS = 1_000_000


class Machine:
    """A machine's two clocks: one that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.day_ns, self.steady_ns = 1_700_000_000 * _SECOND_NS, 5 * _SECOND_NS
        self.clock = DayClock(lambda: self.day_ns, lambda: self.steady_ns)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, asleep or not."""
        self.day_ns += int(seconds * _SECOND_NS)
        self.steady_ns += int(seconds * _SECOND_NS)

    def set_by(self, seconds: float) -> None:
        """Set the day."""
        self.day_ns += int(seconds * _SECOND_NS)


def test_it_is_right_after_sleep_and_after_it_was_set_forward() -> None:
    machine = Machine()
    machine.pass_by(8 * 3_600)
    assert machine.clock.now_ms() == machine.day_ns // _MS_NS
    machine.set_by(3_600)
    assert machine.clock.now_ms() == machine.day_ns // _MS_NS


def test_it_goes_on_at_half_the_speed_after_it_was_set_back_until_it_is_right() -> None:
    machine = Machine()
    before_ms = machine.clock.now_ms()
    machine.set_by(-60)
    for second in range(1, 121):
        machine.pass_by(1)
        assert machine.clock.now_ms() == before_ms + second * 500
    assert machine.clock.now_ms() == machine.day_ns // _MS_NS
    machine.pass_by(7)
    assert machine.clock.now_ms() == machine.day_ns // _MS_NS


_STEPS = st.lists(st.tuples(st.sampled_from(("pass", "set")), st.floats(-1e6, 1e6)), max_size=40)


@given(_STEPS)
def test_it_never_goes_back_and_is_never_behind_the_day(steps: list[tuple[str, float]]) -> None:
    machine = Machine()
    last_ms = machine.clock.now_ms()
    for kind, seconds in steps:
        if kind == "pass":
            machine.pass_by(abs(seconds))
        else:
            machine.set_by(seconds)
        now_ms = machine.clock.now_ms()
        assert now_ms >= max(last_ms, machine.day_ns // _MS_NS)
        last_ms = now_ms
