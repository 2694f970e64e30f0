"""Lines of a simulated world keep what TCP promises, and break as lines do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.talker import Echo, Talker

from steelyard.sim.facts import LineLost
from steelyard.sim.network import Temper
from steelyard.sim.world import World
from steelyard.wire.command import Command

SEEDS = range(30)


def connected(seed: int) -> tuple[World, Echo, Talker]:
    """Make a world with two processes and an open line."""
    world = World(seed)
    echo, talker = Echo(world), Talker(world)
    world.run(200)
    assert len(talker.opened_ms) == 1
    return world, echo, talker


def test_what_is_said_is_heard_and_answered() -> None:
    _world, _echo, talker = connected(1)
    assert talker.ask(34, {"a": "b"}).code == 0


def test_what_is_said_before_a_line_is_open_is_heard_once_it_is() -> None:
    world = World(1)
    echo, talker = Echo(world), Talker(world)
    talker.say(34)
    world.run(200)
    assert echo.heard_opaques == [1]
    assert list(talker.answers) == [1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1_000), st.lists(st.integers(0, 4_000), min_size=1, max_size=60))
def test_a_live_line_loses_nothing_and_keeps_the_order(seed: int, delays_us: list[int]) -> None:
    world, echo, talker = connected(seed)
    world.network.temper = Temper(tails=0.2, cuts=0.5)
    for delay_us in delays_us:
        talker.after_us(delay_us, talker.shout)
    if world.random.percent(50):
        world.at(1_000, lambda: world.network.jam("echo", "talker"))
        world.at(90_000, lambda: world.network.release("echo", "talker"))
    world.run(1_000)
    assert echo.heard_opaques == list(range(1, len(delays_us) + 1))
    assert list(talker.answers) == echo.heard_opaques


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_line_loses_only_what_came_last(seed: int) -> None:
    world, echo, talker = connected(seed)
    for _ in range(20):
        talker.say(34)
        world.run(world.now_ms() + 1)
    world.network.cut("talker", "echo")
    assert world.journal.facts[-1] == LineLost(at_ms=world.now_ms(), one="talker", other="echo", how="cut")
    world.run(world.now_ms() + 100)
    before = echo.heard_opaques
    assert before == list(range(1, len(before) + 1))
    assert list(talker.answers) == list(range(1, len(talker.answers) + 1))
    talker.say(34)
    world.run(world.now_ms() + 10_000)
    assert echo.heard_opaques == before
    assert len(talker.closed_ms) == 1


def test_ends_of_a_cut_line_notice_at_their_own_times_or_not_at_all() -> None:
    noticed = set()
    for seed in range(250):
        world, echo, talker = connected(seed)
        world.network.cut("talker", "echo")
        world.run(world.now_ms() + 30_000)
        noticed.add((len(talker.closed_ms), echo.lost))
    assert noticed == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_left_with_half_a_line_finds_out_by_speaking(seed: int) -> None:
    world, echo, talker = connected(seed)
    world.network.half_open("echo", "talker")
    world.run(world.now_ms() + 60_000)
    assert (echo.lost, talker.closed_ms) == (1, [])
    talker.say(34)
    world.run(world.now_ms() + 6_000)
    assert len(talker.closed_ms) == 1
    assert echo.heard_opaques == []


def test_what_is_stuck_arrives_once_its_sender_has_another_line() -> None:
    world, echo, talker = connected(1)
    talker.again_ms = 1
    world.network.strand("talker", "echo", 1_000_000)
    talker.say(34)
    world.run(world.now_ms() + 700)
    assert (len(talker.closed_ms), len(talker.opened_ms)) == (1, 2)
    talker.say(34)
    world.run(world.now_ms() + 200)
    assert (echo.heard_opaques, echo.lost) == ([2], 0)
    world.run(world.now_ms() + 200)
    assert (echo.heard_opaques, echo.lost) == ([2, 1], 1)
    assert list(talker.answers) == [2]


def test_one_way_silence_holds_one_direction_only() -> None:
    world, echo, talker = connected(1)
    world.network.jam("echo", "talker", one_way=True)
    talker.say(34)
    world.run(world.now_ms() + 5_000)
    assert echo.heard_opaques == [1]
    assert talker.answers == {}
    world.network.release("echo", "talker")
    world.run(world.now_ms() + 100)
    assert list(talker.answers) == [1]


def test_a_slow_line_takes_its_time() -> None:
    world, _echo, talker = connected(1)
    world.network.slow("echo", "talker", 400_000)
    start_ms = world.now_ms()
    talker.ask(34)
    assert world.now_ms() - start_ms >= 800
    world.network.slow("echo", "talker", 0)
    start_ms = world.now_ms()
    talker.ask(34)
    assert world.now_ms() - start_ms < 200


def test_a_line_to_nobody_is_refused() -> None:
    world = World(1)
    talker = Talker(world, address="10.0.0.7:9")
    world.run(300)
    assert (talker.opened_ms, len(talker.closed_ms)) == ([], 1)


def test_a_line_to_a_machine_that_is_gone_fails_after_a_while() -> None:
    world = World(1)
    Echo(world).kill("vanished")
    talker = Talker(world)
    world.run(900)
    assert talker.closed_ms == []
    world.run(5_000)
    assert (talker.opened_ms, len(talker.closed_ms)) == ([], 1)


def test_a_paused_process_has_lines_that_look_open_and_hears_everything_when_it_goes_on() -> None:
    world = World(1)
    echo = Echo(world)
    echo.pause()
    talker = Talker(world)
    talker.say(34)
    world.run(5_000)
    assert len(talker.opened_ms) == 1
    assert echo.heard_opaques == []
    echo.resume()
    world.run(5_100)
    assert list(talker.answers) == [1]


def test_an_attempt_through_a_jam_hangs_until_it_is_free_or_given_up() -> None:
    world = World(1)
    Echo(world)
    world.network.jam("echo", "talker")
    talker = Talker(world)
    world.run(500)
    assert talker.opened_ms == talker.closed_ms == []
    world.network.release("echo", "talker")
    world.run(700)
    assert len(talker.opened_ms) == 1
    world.network.jam("echo", "other", one_way=True)
    other = Talker(world, "other")
    world.run(6_000)
    assert (other.opened_ms, len(other.closed_ms)) == ([], 1)


def test_processes_that_are_parted_open_no_lines_until_they_are_joined() -> None:
    world = World(1)
    Echo(world)
    world.network.part("talker", "echo")
    talker = Talker(world, again_ms=100)
    world.run(1_000)
    assert talker.opened_ms == []
    assert len(talker.closed_ms) > 2
    world.network.join("echo", "talker")
    world.run(1_500)
    assert len(talker.opened_ms) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_peers_of_a_killed_process_hear_some_of_its_last_words_and_then_its_end(seed: int) -> None:
    world, echo, talker = connected(seed)
    for _ in range(10):
        talker.say(34)
        world.run(world.now_ms() + 1)
    echo.kill()
    world.run(world.now_ms() + 3_000)
    assert list(talker.answers) == list(range(1, len(talker.answers) + 1))
    assert len(talker.closed_ms) == 1


def test_nobody_hears_of_a_process_that_vanished() -> None:
    world, echo, talker = connected(1)
    echo.kill("vanished")
    world.run(60_000)
    assert talker.closed_ms == []
    talker.say(34)
    world.run(64_000)
    assert talker.closed_ms == []
    world.run(81_000)
    assert len(talker.closed_ms) == 1


def test_who_closes_is_heard_to_the_end_and_hears_nothing_more() -> None:
    world, echo, talker = connected(1)
    for _ in range(5):
        talker.say(34)
    talker.line.close()
    talker.line.say(Command(34))
    world.run(world.now_ms() + 500)
    assert echo.heard_opaques == [1, 2, 3, 4, 5]
    assert echo.lost == 1
    assert talker.answers == {}
    assert talker.closed_ms == []


def test_a_healed_network_tells_of_every_broken_line_and_lets_everything_flow() -> None:
    world, _echo, talker = connected(3)
    other = Talker(world, "other")
    world.run(400)
    world.network.half_open("echo", "talker")
    world.network.jam("echo", "other")
    other.say(34)
    world.run(3_000)
    world.network.heal()
    world.run(3_200)
    assert len(talker.closed_ms) == 1
    assert list(other.answers) == [1]
