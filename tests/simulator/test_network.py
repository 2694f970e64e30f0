"""Connections of a simulated world keep what TCP promises, and break as connections do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.facts import ConnectionDisturbed
from simulator.network import NetworkProfile
from simulator.world import World
from steelyard.wire.command import Command
from tests.simulator.talker import Echo, Talker

SEEDS = range(30)


def connected(seed: int) -> tuple[World, Echo, Talker]:
    """Make a world with two processes and an open connection."""
    world = World(seed)
    echo, talker = Echo(world), Talker(world)
    world.run(200)
    assert len(talker.opened_ms) == 1
    return world, echo, talker


def test_a_request_is_received_and_answered() -> None:
    _world, _echo, talker = connected(1)
    assert talker.ask(34, {"a": "b"}).code == 0


def test_what_is_sent_before_a_connection_is_open_arrives_once_it_is() -> None:
    world = World(1)
    echo, talker = Echo(world), Talker(world)
    talker.send_request(34)
    world.run(200)
    assert echo.received_opaques == [1]
    assert list(talker.answers) == [1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1_000), st.lists(st.integers(0, 4_000), min_size=1, max_size=60))
def test_an_open_connection_loses_nothing_and_keeps_the_order(seed: int, delays_us: list[int]) -> None:
    world, echo, talker = connected(seed)
    world.network.profile = NetworkProfile(tail_fraction=0.2, split_fraction=0.5)
    for delay_us in delays_us:
        talker.call_later_us(delay_us, talker.shout)
    if world.random.chance(50):
        world.schedule(1_000, lambda: world.network.jam("echo", "talker"))
        world.schedule(90_000, lambda: world.network.release("echo", "talker"))
    world.run(1_000)
    assert echo.received_opaques == list(range(1, len(delays_us) + 1))
    assert list(talker.answers) == echo.received_opaques


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_connection_loses_only_what_came_last(seed: int) -> None:
    world, echo, talker = connected(seed)
    for _ in range(20):
        talker.send_request(34)
        world.run(world.now_ms() + 1)
    world.network.cut("talker", "echo")
    assert world.journal.facts[-1] == ConnectionDisturbed(at_ms=world.now_ms(), one="talker", other="echo", how="cut")
    world.run(world.now_ms() + 100)
    before = echo.received_opaques
    assert before == list(range(1, len(before) + 1))
    assert list(talker.answers) == list(range(1, len(talker.answers) + 1))
    talker.send_request(34)
    world.run(world.now_ms() + 10_000)
    assert echo.received_opaques == before
    assert len(talker.closed_ms) == 1


def test_ends_of_a_cut_connection_notice_at_their_own_times_or_not_at_all() -> None:
    noticed = set()
    for seed in range(250):
        world, echo, talker = connected(seed)
        world.network.cut("talker", "echo")
        world.run(world.now_ms() + 30_000)
        noticed.add((len(talker.closed_ms), echo.lost))
    assert noticed == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_half_open_end_notices_when_it_sends(seed: int) -> None:
    world, echo, talker = connected(seed)
    world.network.half_open("echo", "talker")
    world.run(world.now_ms() + 60_000)
    assert (echo.lost, talker.closed_ms) == (1, [])
    talker.send_request(34)
    world.run(world.now_ms() + 6_000)
    assert len(talker.closed_ms) == 1
    assert echo.received_opaques == []


def test_what_is_stuck_arrives_once_its_sender_has_reconnected() -> None:
    world, echo, talker = connected(1)
    talker.again_ms = 1
    world.network.stall_until_reconnect("talker", "echo", 1_000_000)
    talker.send_request(34)
    world.run(world.now_ms() + 700)
    assert (len(talker.closed_ms), len(talker.opened_ms)) == (1, 2)
    talker.send_request(34)
    world.run(world.now_ms() + 200)
    assert (echo.received_opaques, echo.lost) == ([2], 0)
    world.run(world.now_ms() + 200)
    assert (echo.received_opaques, echo.lost) == ([2, 1], 1)
    assert list(talker.answers) == [2]


def test_one_way_silence_holds_one_direction_only() -> None:
    world, echo, talker = connected(1)
    world.network.jam("echo", "talker", one_way=True)
    talker.send_request(34)
    world.run(world.now_ms() + 5_000)
    assert echo.received_opaques == [1]
    assert talker.answers == {}
    world.network.release("echo", "talker")
    world.run(world.now_ms() + 100)
    assert list(talker.answers) == [1]


def test_a_slow_connection_takes_longer() -> None:
    world, _echo, talker = connected(1)
    world.network.slow("echo", "talker", 400_000)
    start_ms = world.now_ms()
    talker.ask(34)
    assert world.now_ms() - start_ms >= 800
    world.network.slow("echo", "talker", 0)
    start_ms = world.now_ms()
    talker.ask(34)
    assert world.now_ms() - start_ms < 200


def test_a_connection_without_a_listener_is_refused() -> None:
    world = World(1)
    talker = Talker(world, address="10.0.0.7:9")
    world.run(300)
    assert (talker.opened_ms, len(talker.closed_ms)) == ([], 1)


def test_a_connection_to_a_machine_that_is_gone_times_out() -> None:
    world = World(1)
    Echo(world).kill("vanished")
    talker = Talker(world)
    world.run(900)
    assert talker.closed_ms == []
    world.run(5_000)
    assert (talker.opened_ms, len(talker.closed_ms)) == ([], 1)


def test_connections_of_a_paused_process_look_open_and_it_receives_everything_when_it_resumes() -> None:
    world = World(1)
    echo = Echo(world)
    echo.pause()
    talker = Talker(world)
    talker.send_request(34)
    world.run(5_000)
    assert len(talker.opened_ms) == 1
    assert echo.received_opaques == []
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


def test_blocked_processes_open_no_connections_until_they_are_allowed_to() -> None:
    world = World(1)
    Echo(world)
    world.network.block_connects("talker", "echo")
    talker = Talker(world, again_ms=100)
    world.run(1_000)
    assert talker.opened_ms == []
    assert len(talker.closed_ms) > 2
    world.network.allow_connects("echo", "talker")
    world.run(1_500)
    assert len(talker.opened_ms) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_peers_of_a_killed_process_receive_some_of_what_it_sent_and_then_the_close(seed: int) -> None:
    world, echo, talker = connected(seed)
    for _ in range(10):
        talker.send_request(34)
        world.run(world.now_ms() + 1)
    echo.kill()
    world.run(world.now_ms() + 3_000)
    assert list(talker.answers) == list(range(1, len(talker.answers) + 1))
    assert len(talker.closed_ms) == 1


def test_a_vanished_process_closes_nothing() -> None:
    world, echo, talker = connected(1)
    echo.kill("vanished")
    world.run(60_000)
    assert talker.closed_ms == []
    talker.send_request(34)
    world.run(64_000)
    assert talker.closed_ms == []
    world.run(81_000)
    assert len(talker.closed_ms) == 1


def test_an_end_that_closes_delivers_everything_and_receives_nothing_more() -> None:
    world, echo, talker = connected(1)
    for _ in range(5):
        talker.send_request(34)
    talker.connection.close()
    talker.connection.send(Command(34))
    world.run(world.now_ms() + 500)
    assert echo.received_opaques == [1, 2, 3, 4, 5]
    assert echo.lost == 1
    assert talker.answers == {}
    assert talker.closed_ms == []


def test_a_healed_network_reports_every_broken_connection_and_delivers_everything() -> None:
    world, _echo, talker = connected(3)
    other = Talker(world, "other")
    world.run(400)
    world.network.half_open("echo", "talker")
    world.network.jam("echo", "other")
    other.send_request(34)
    world.run(3_000)
    world.network.heal()
    world.run(3_200)
    assert len(talker.closed_ms) == 1
    assert list(other.answers) == [1]
