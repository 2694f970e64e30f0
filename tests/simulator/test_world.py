"""Time, turns and clocks of a simulated world."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import ProcessDied
from simulator.facts import ProcessGone, ProcessPaused, ProcessResumed
from simulator.process import WALL_CLOCK_START_MS, Process, ProcessClock
from simulator.world import World


def test_what_falls_on_the_same_time_happens_in_the_order_of_asking() -> None:
    world, seen = World(1), list[int]()
    for number in range(20):
        world.schedule(1_000, partial(seen.append, number))
    world.run(1)
    assert seen == list(range(20))


@given(st.lists(st.integers(0, 5_000)))
def test_time_never_runs_backwards(delays: list[int]) -> None:
    world, seen = World(1), list[int]()
    for delay_us in delays:
        world.schedule(delay_us, lambda: seen.append(world.now_us))
    world.run(5)
    assert seen == sorted(delays)
    assert world.now_ms() == 5


def test_a_run_stops_soon_after_it_may_and_goes_on_where_it_stopped() -> None:
    world, seen = World(1), list[int]()
    for number in range(1_000):
        world.schedule(number * 1_000, partial(seen.append, number))
    world.run(10_000, should_stop=lambda: len(seen) >= 100)
    assert 100 <= len(seen) <= 151
    world.run(10_000)
    assert seen == list(range(1_000))


def test_a_timer_that_was_cancelled_does_nothing() -> None:
    world, seen = World(1), list[int]()
    process = Process(world, "p", "10.0.0.1")
    world.schedule(1_000, partial(seen.append, 1)).cancel()
    process.call_later(1, partial(seen.append, 2)).cancel()
    world.run(10)
    assert seen == []


def test_a_paused_process_takes_its_turns_late_and_a_dead_one_never() -> None:
    world, seen = World(1), list[str]()
    slow, dead = Process(world, "slow", "10.0.0.1"), Process(world, "dead", "10.0.0.2")
    slow.call_later(10, lambda: seen.append(f"slow at {world.now_ms()}"))
    dead.call_later(10, lambda: seen.append("dead"))
    world.run(5)
    slow.pause()
    dead.kill()
    world.run(50)
    assert seen == []
    slow.resume()
    assert seen == ["slow at 50"]
    assert world.journal.facts == [
        ProcessPaused(at_ms=5, name="slow"),
        ProcessGone(at_ms=5, name="dead", how="killed"),
        ProcessResumed(at_ms=50, name="slow"),
    ]


def test_a_timer_that_waits_for_a_paused_process_can_still_be_cancelled() -> None:
    world, seen = World(1), list[int]()
    process = Process(world, "p", "10.0.0.1")
    late = process.call_later(10, partial(seen.append, 1))
    process.pause()
    world.run(20)
    late.cancel()
    process.resume()
    assert seen == []


def test_a_process_that_pauses_itself_keeps_the_rest_of_its_turns() -> None:
    world, seen = World(1), list[int]()
    process = Process(world, "p", "10.0.0.1")
    process.call_later(10, process.pause)
    process.call_later(11, partial(seen.append, 2))
    process.pause()
    world.run(20)
    process.resume()
    assert process.is_paused
    assert seen == []
    process.resume()
    assert seen == [2]


def test_turns_of_an_earlier_process_do_not_reach_a_later_one() -> None:
    world, seen = World(1), list[int]()
    process = Process(world, "p", "10.0.0.1")
    process.call_later(10, partial(seen.append, 1))
    process.kill()
    process.revive()
    process.call_later(10, partial(seen.append, 2))
    world.run(20)
    assert seen == [2]


def test_a_process_whose_disk_ends_it_has_crashed() -> None:
    world = World(1)
    process = Process(world, "p", "10.0.0.1")

    def die() -> None:
        raise ProcessDied("write")

    process.call_later(10, die)
    world.run(20)
    assert not process.is_alive
    assert world.journal.facts == [ProcessGone(at_ms=10, name="p", how="crashed")]


def test_a_clock_on_the_wall_jumps_and_the_steady_one_does_not() -> None:
    world = World(1)
    clock = Process(world, "p", "10.0.0.1").clock
    world.run(1_000)
    clock.jump(-5_000)
    assert (clock.wall_ms(), clock.steady_ms()) == (WALL_CLOCK_START_MS - 4_000, 1_000)


@given(st.integers(-5_000, 5_000), st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_timer_of_a_skewed_clock_is_never_early_by_that_clock(ppm: int, now_ms: int, delay_ms: int) -> None:
    now_us = now_ms * 1_000
    clock = ProcessClock(lambda: now_us)
    clock.skew(ppm)
    before_ms = clock.steady_ms()
    now_us += clock.to_world_us(delay_ms)
    assert delay_ms <= clock.steady_ms() - before_ms <= delay_ms + 1


def test_a_clock_that_is_skewed_goes_on_from_where_it_was() -> None:
    world = World(1)
    clock = Process(world, "p", "10.0.0.1").clock
    clock.skew(1_000)
    world.run(10_000)
    assert clock.steady_ms() == 10_010
    clock.skew(0)
    world.run(20_000)
    assert clock.steady_ms() == 20_010
