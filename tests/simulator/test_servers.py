"""Real brokers and name servers in a simulated world: what they record, what they leave, what they find."""

import os
import subprocess
import sys

import pytest
from msgspec import structs

from simulator import facts
from simulator.actors.broker import BrokerProcess
from simulator.actors.name_server import NameServerProcess
from simulator.faults import SimulatedFaults
from simulator.world import World
from steelyard.broker.options import BrokerOptions
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.queue_assignment import LockResponse
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from tests.simulator.talker import GROUP, Talker

ADDRESS = "10.0.1.1:10911"


def cluster(seed: int = 1, *, flush: str = "async") -> tuple[World, NameServerProcess, BrokerProcess]:
    """Start a name server and a broker."""
    world = World(seed)
    nameserver = NameServerProcess(world)
    broker = BrokerProcess(world, BrokerOptions(name="broker-a", host="10.0.1.1", flush=flush), [nameserver.address])
    nameserver.start()
    broker.start()
    world.run(300)
    return world, nameserver, broker


def reported(world: World, *kinds: type[facts.Fact]) -> list[facts.Fact]:
    """Return the facts of some kinds."""
    return [fact for fact in world.journal.facts if type(fact) in kinds]


def filled(world: World, broker: BrokerProcess, count: int = 8) -> Talker:
    """Send some messages to two queues; return the sender."""
    sender = Talker(world, f"p{world.now_us}", broker.options.address, "10.0.2.1")
    world.run(world.now_ms() + 100)
    for number in range(count):
        opaque = sender.send(f"{sender.name}-{number}", number % 2)
        world.run(world.now_ms() + 200)
        assert sender.answers[opaque].code == 0
    return sender


def test_a_broker_registers_and_its_topics_are_known_before_their_maker_is_answered() -> None:
    world, nameserver, broker = cluster()
    filled(world, broker, 1)
    asker = Talker(world, "asker", nameserver.address)
    answer = asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    route = decode_body(RouteBody, answer.body).route("orders")
    assert {queue.broker for queue in route.readable_queues()} == {"broker-a"}


def test_what_is_in_the_log_is_found_with_its_uid_and_place() -> None:
    world, _, broker = cluster()
    sender = filled(world, broker, 4)
    logged = [(str(each.queue), each.offset, each.uid) for each in broker.logged_messages()]
    assert logged == [
        ("orders@broker-a:0", 0, f"{sender.name}-0"),
        ("orders@broker-a:0", 1, f"{sender.name}-2"),
        ("orders@broker-a:1", 0, f"{sender.name}-1"),
        ("orders@broker-a:1", 1, f"{sender.name}-3"),
    ]


def test_a_broker_records_members_locks_and_commits() -> None:
    world, _, broker = cluster()
    filled(world, broker, 2)
    member = Talker(world, "m1", ADDRESS)
    member.heartbeat()
    member.lock("broker-a", [0, 1])
    member.lock("broker-a", [0])
    member.commit(0, 1)
    member.lock("broker-a", [1], code=RequestCode.UNLOCK_BATCH_MQ)
    queue = Queue("orders", "broker-a", 0)
    assert broker.held_locks() == [("broker-a", f"{GROUP}%LEASE", queue, "m1")]
    assert broker.committed_offsets()[GROUP, queue] == 1
    member.leave()
    kinds = (
        facts.MemberRegistered,
        facts.MemberUnregistered,
        facts.LockGranted,
        facts.LockFreed,
        facts.OffsetCommitted,
    )
    assert [_brief(fact) for fact in reported(world, *kinds)] == [
        "Registered m1",
        "Granted m1 0 new",
        "Granted m1 1 new",
        "Granted m1 0 again",
        "Committed m1 0 None→1",
        "Freed m1 1 unlocked",
        "Unregistered m1 goodbye",
        "Freed m1 0 gone",
    ]
    assert broker.held_locks() == []


def _brief(fact: facts.Fact) -> str:
    match fact:
        case facts.LockGranted():
            assert fact.epoch is not None
            assert fact.lock_group == f"{GROUP}%LEASE"
            return f"Granted {fact.member} {fact.queue.queue_id} {'again' if fact.again else 'new'}"
        case facts.LockFreed():
            assert fact.lock_group == f"{GROUP}%LEASE"
            return f"Freed {fact.member} {fact.queue.queue_id} {fact.how}"
        case facts.OffsetCommitted():
            return f"Committed {fact.member} {fact.queue.queue_id} {fact.before}→{fact.offset}"
        case facts.MemberUnregistered():
            return f"Unregistered {fact.member} {fact.how}"
        case facts.MemberRegistered():
            return f"Registered {fact.member}"
    return ""


def test_a_commit_of_a_member_that_lost_the_queue_is_recorded_as_rejected() -> None:
    world, _, broker = cluster()
    filled(world, broker, 4)
    owner, other = Talker(world, "m1", ADDRESS), Talker(world, "m2", ADDRESS)
    owner.heartbeat()
    other.heartbeat()
    answer = owner.lock("broker-a", [0])
    word = decode_body(LockResponse, answer.body).steelyard
    assert word is not None
    assert owner.commit(0, 2, epoch=word.epochs[0] if word.epochs else None).code == 0
    assert other.commit(0, 1).code == ResponseCode.NO_PERMISSION
    queue = Queue("orders", "broker-a", 0)
    assert reported(world, facts.CommitRejected) == [
        facts.CommitRejected(at_ms=world.journal.facts[-1].at_ms, group=GROUP, queue=queue, offset=1, member="m2")
    ]


@pytest.mark.parametrize(("how", "told_how"), [("killed", "closed"), ("vanished", "silent")])
def test_a_member_that_is_gone_is_removed_and_its_locks_are_freed(how: str, told_how: str) -> None:
    world, _, broker = cluster()
    filled(world, broker, 2)
    member = Talker(world, "m1", ADDRESS)
    member.heartbeat()
    member.lock("broker-a", [0])
    member.kill(how)
    world.run(world.now_ms() + 20_000)
    gone = reported(world, facts.MemberUnregistered, facts.LockFreed)
    assert [_brief(fact) for fact in gone] == [f"Unregistered m1 {told_how}", "Freed m1 0 gone"]


def test_a_broker_that_crashed_finds_what_it_wrote_and_has_no_members() -> None:
    world, nameserver, broker = cluster()
    sender = filled(world, broker, 6)
    member = Talker(world, "m1", ADDRESS)
    member.heartbeat()
    member.lock("broker-a", [0])
    before = [each.uid for each in broker.logged_messages()]
    broker.crash()
    assert [_brief(fact) for fact in reported(world, facts.MemberUnregistered, facts.LockFreed)] == [
        "Unregistered m1 restart",
        "Freed m1 0 restart",
    ]
    world.run(world.now_ms() + 2_500)
    assert len(sender.closed_ms) == len(member.closed_ms) == 1
    broker.restart()
    world.run(world.now_ms() + 3_000)
    assert [each.uid for each in broker.logged_messages()] == before
    assert broker.held_locks() == []
    asker = Talker(world, "asker", nameserver.address)
    assert asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).code == 0
    assert [type(fact) for fact in reported(world, facts.ProcessStarted, facts.ProcessGone)][-2:] == [
        facts.ProcessGone,
        facts.ProcessStarted,
    ]


def test_a_queue_that_is_claimed_after_a_restart_keeps_its_epoch_and_the_name_of_its_lock() -> None:
    world, _, broker = cluster()
    filled(world, broker, 2)
    member = Talker(world, "m1", ADDRESS, again_ms=50)
    member.heartbeat()
    member.lock("broker-a", [0])
    world.run(world.now_ms() + 1_000)
    broker.crash()
    broker.restart()
    world.run(world.now_ms() + 2_500)
    (granted,) = reported(world, facts.LockGranted)
    assert isinstance(granted, facts.LockGranted)
    member.send_heartbeat(held={0: granted.epoch or 0})
    member.answer()
    freed, again = reported(world, facts.LockGranted, facts.LockFreed)[1:]
    assert _brief(freed) == "Freed m1 0 restart"
    assert again == structs.replace(granted, at_ms=again.at_ms)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_sync_broker_answered_outlives_a_loss_of_power(seed: int) -> None:
    world, _, broker = cluster(seed, flush="sync")
    filled(world, broker, 20)
    before = [each.uid for each in broker.logged_messages()]
    broker.lose_power()
    world.run(world.now_ms() + 500)
    broker.restart()
    assert [each.uid for each in broker.logged_messages()] == before


def test_an_async_broker_may_lose_its_last_messages_with_the_power() -> None:
    lost = 0
    for seed in range(8):
        world, _, broker = cluster(seed)
        sender = filled(world, broker, 2)
        for number in range(2, 12):
            sender.send(f"{sender.name}-{number}")
        world.run(world.now_ms() + 60)
        before = len(broker.logged_messages())
        broker.lose_power()
        broker.restart()
        lost += before - len(broker.logged_messages())
    assert lost > 0


def test_a_broker_that_is_stopped_leaves_everything_in_order() -> None:
    world, nameserver, broker = cluster()
    filled(world, broker, 6)
    before = broker.logged_messages()
    broker.stop()
    world.run(world.now_ms() + 500)
    asker = Talker(world, "asker", nameserver.address)
    assert asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).code == ResponseCode.TOPIC_NOT_EXIST
    assert reported(world, facts.ProcessGone) == [facts.ProcessGone(at_ms=before[0].at_ms, name="broker-a", how="left")]
    broker.restart()
    assert [each.uid for each in broker.logged_messages()] == [each.uid for each in before]
    assert reported(world, facts.Situation) == []


def test_brokers_register_again_at_a_restarted_name_server() -> None:
    world, nameserver, broker = cluster()
    filled(world, broker, 1)
    nameserver.crash()
    world.run(world.now_ms() + 5_000)
    nameserver.restart()
    world.run(world.now_ms() + 40_000)
    asker = Talker(world, "asker", nameserver.address)
    assert asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).code == 0


def restless(seed: int) -> str:
    """Run a small world in which everything happens; return its digest."""
    world, _, broker = cluster(seed, flush="sync" if seed % 2 else "async")
    faults = SimulatedFaults(world)
    talkers = [Talker(world, f"m{number}", ADDRESS, f"10.0.9.{number}", again_ms=50) for number in range(5)]
    world.run(600)
    for number in range(120):
        talker = talkers[number % 5]
        talker.send(f"{talker.name}-{number}", number % 4)
        match number:
            case 10 | 50 | 90:
                for each in talkers:
                    each.call_later(1, each.send_heartbeat)
                    each.call_later(40, each.send_lock)
            case 30:
                faults.kill("broker-a", 700)
            case 60:
                faults.cut("m1", "broker-a", 200)
                faults.pause("m2", 500)
            case 70:
                faults.lose_power("broker-a", 500)
            case 100:
                faults.break_disk("broker-a", 400)
        world.run(world.now_ms() + 50)
    faults.heal()
    world.run(world.now_ms() + 15_000)
    assert broker.logged_messages()
    return world.journal.digest()


@pytest.mark.process
def test_a_world_is_the_same_in_every_process() -> None:
    code = "from tests.simulator.test_servers import restless; print(restless(1), restless(2))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert digests == {f"{restless(1)} {restless(2)}\n"}
