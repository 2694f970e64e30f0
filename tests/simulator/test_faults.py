"""Injected faults, and how they end."""

import pytest

from simulator import facts
from simulator.faults import SimulatedFaults
from simulator.process import WALL_CLOCK_START_MS
from simulator.world import World
from steelyard.wire.codes import ResponseCode
from tests.simulator.talker import Echo, Talker
from tests.simulator.test_servers import ADDRESS, cluster, filled, reported


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_that_is_killed_dies_soon_and_comes_back_with_all_that_was_answered(seed: int) -> None:
    world, _, broker = cluster(seed)
    sender = filled(world, broker, 4)
    SimulatedFaults(world).kill("broker-a", 1_000)
    opaque = sender.send("last")
    world.run(world.now_ms() + 900)
    assert not broker.is_alive
    answered = opaque in sender.answers
    world.run(world.now_ms() + 1_000)
    assert broker.is_alive
    logged = [each.uid for each in broker.logged_messages()]
    assert len(logged) >= 4
    assert "last" in logged or not answered
    assert [type(fact) for fact in reported(world, facts.ProcessGone, facts.ProcessStarted)][-2:] == [
        facts.ProcessGone,
        facts.ProcessStarted,
    ]


def test_a_broker_dies_now_or_at_its_disk() -> None:
    hows = set()
    for seed in range(12):
        world, _, broker = cluster(seed)
        SimulatedFaults(world).kill("broker-a")
        Talker(world, "p1", ADDRESS).send("one")
        world.run(world.now_ms() + 1_000)
        assert not broker.is_alive
        hows |= {fact.how for fact in world.journal.facts if isinstance(fact, facts.ProcessGone)}
    assert hows == {"killed", "crashed"}


def test_a_process_that_vanished_comes_back_only_if_it_is_a_server_and_a_time_was_given() -> None:
    world, nameserver, broker = cluster()
    member = Talker(world, "m1", ADDRESS)
    faults = SimulatedFaults(world)
    faults.vanish("m1", 100)
    faults.vanish("broker-a")
    faults.vanish("nameserver", 100)
    world.run(world.now_ms() + 5_000)
    assert (member.is_alive, broker.is_alive, nameserver.is_alive) == (False, False, True)


def test_a_pause_ends_by_itself() -> None:
    world = World(1)
    echo, talker = Echo(world), Talker(world)
    world.run(100)
    SimulatedFaults(world).pause("echo", 2_000)
    talker.send_request(34)
    world.run(2_050)
    assert talker.answers == {}
    world.run(2_300)
    assert list(talker.answers) == [1]
    assert [type(fact) for fact in world.journal.facts] == [facts.ProcessPaused, facts.ProcessResumed]
    assert echo.is_alive


def test_connections_that_were_cut_can_be_opened_again_after_a_while() -> None:
    world = World(1)
    Echo(world)
    talker = Talker(world, again_ms=50)
    world.run(100)
    SimulatedFaults(world).cut("talker", "echo", 5_000)
    talker.send_request(34)
    world.run(5_000)
    assert len(talker.opened_ms) == 1
    world.run(6_000)
    assert len(talker.opened_ms) == 2


def test_jams_and_one_way_silence_and_slowness_end_by_themselves() -> None:
    world = World(1)
    Echo(world)
    talker, faults = Talker(world), SimulatedFaults(world)
    world.run(100)
    faults.jam("talker", "echo", 500)
    faults.slow("talker", "echo", 10, 500)
    talker.send_request(34)
    world.run(590)
    assert talker.answers == {}
    world.run(800)
    assert list(talker.answers) == [1]
    faults.one_way("echo", "talker", 500)
    talker.send_request(34)
    world.run(1_290)
    assert list(talker.answers) == [1]
    world.run(1_500)
    assert list(talker.answers) == [1, 2]


def test_a_full_disk_refuses_messages_until_it_has_room_again() -> None:
    world, _, broker = cluster()
    sender, faults = filled(world, broker, 2), SimulatedFaults(world)
    faults.fill_disk("broker-a", 1_000)
    sender.send("refused")
    assert sender.answer().code == ResponseCode.SERVICE_NOT_AVAILABLE
    world.run(world.now_ms() + 1_500)
    sender.send("taken")
    assert sender.answer().code == 0
    assert [each.uid for each in broker.logged_messages()][-1:] != ["refused"]


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_whose_disk_failed_takes_writes_again_once_all_is_healed(seed: int) -> None:
    world, _, broker = cluster(seed, flush="sync")
    sender, faults = filled(world, broker, 2), SimulatedFaults(world)
    answered = {each.uid for each in broker.logged_messages()}
    faults.break_disk("broker-a", 2_000)
    sender.again_ms = 100
    for number in range(20):
        opaque = sender.send(f"late-{number}")
        world.run(world.now_ms() + 150)
        if opaque in sender.answers and sender.answers[opaque].code == 0:
            answered.add(f"late-{number}")
    faults.heal()
    world.run(world.now_ms() + 3_000)
    assert broker.is_alive
    assert not broker.is_refusing
    sender.send("after")
    assert sender.answer().code == 0
    assert answered <= {each.uid for each in broker.logged_messages()}


def test_a_start_on_a_disk_that_fails_is_tried_again() -> None:
    world, _, broker = cluster()
    filled(world, broker, 2)
    broker.crash()
    SimulatedFaults(world).fill_disk("broker-a", 2_500)
    broker.restart()
    world.run(world.now_ms() + 6_000)
    assert broker.is_alive
    assert len(broker.logged_messages()) == 2


def test_clocks_jump_and_run_fast() -> None:
    world, _, broker = cluster()
    faults = SimulatedFaults(world)
    faults.skew_clock("broker-a", 100_000)
    world.run(1_300)
    assert broker.clock.steady_ms() == 1_400
    faults.jump_clock("broker-a", 60_000)
    assert broker.clock.wall_ms() == WALL_CLOCK_START_MS + 61_400
    world.run(5_000)
    assert broker.is_alive


def test_healing_ends_everything_and_starts_every_server() -> None:
    world, nameserver, broker = cluster(3)
    sender, faults = filled(world, broker, 2), SimulatedFaults(world)
    sender.again_ms = 50
    member = Talker(world, "m1", ADDRESS, again_ms=50)
    member.heartbeat()
    faults.jam("m1", "broker-a", 60_000)
    faults.vanish("nameserver")
    faults.lose_power("broker-a")
    faults.pause(sender.name, 60_000)
    world.run(world.now_ms() + 2_000)
    faults.heal()
    assert isinstance(world.journal.facts[-1], facts.FaultsHealed)
    world.run(world.now_ms() + 5_000)
    assert nameserver.is_alive
    assert broker.is_alive
    member.send_request(34)
    world.run(world.now_ms() + 1_000)
    member.heartbeat()
    sender.send("after")
    assert sender.answer().code == 0


def test_faults_of_those_who_are_not_there_do_nothing() -> None:
    world = World(1)
    faults = SimulatedFaults(world)
    faults.kill("nobody", 10)
    faults.vanish("nobody", 10)
    faults.lose_power("nobody", 10)
    faults.stop("nobody", 10)
    faults.pause("nobody", 10)
    faults.break_disk("nobody", 10)
    faults.fill_disk("nobody", 10)
    faults.jump_clock("nobody", 10)
    faults.skew_clock("nobody", 10)
    faults.cut("nobody", "nothing", 10)
    faults.jam("nobody", "nothing", 10)
    faults.half_open("nobody", "nothing")
    faults.slow("nobody", "nothing", 10, 10)
    faults.heal()
    world.run(1_000)
