"""What a broker tells of itself in numbers."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.broker.client import Client, wants
from tests.broker.desk import Desk, message
from tests.broker.reader import pull, pull_header

from steelyard.broker import measuring
from steelyard.broker.measuring import measure
from steelyard.broker.tallies import Tally
from steelyard.model import own_measures as own
from steelyard.model import rocketmq_measures as rocketmq
from steelyard.model.exposition import exposition
from steelyard.model.measures import Distribution, Family, Measure, joined
from steelyard.store.recovery import CUT_OFF
from steelyard.store.walk import Damage
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, ProducerBeat
from steelyard.wire.bodies.topics import TopicSettings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command

NODE = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-0"}


@pytest.fixture
def desk() -> Desk:
    """Run a broker with the topic orders: four queues, three messages in the first one, a second apart."""
    desk = Desk()
    desk.state.topics.put(TopicSettings(name="orders", read_queues=4, write_queues=4, attributes={}), desk.now_ms)
    for _ in range(3):
        desk.now_ms += 1_000
        desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    return desk


def told(desk: Desk, wanted: Measure) -> dict[tuple[str, ...], float]:
    """Return the numbers of a family, by its labels but those of the broker."""
    found = {}
    for family in joined(measure(desk.state, desk.now_ms)):
        for sample in family.samples if family.name == wanted.name else ():
            labels = dict(sample.labels)
            assert {name: labels.pop(name) for name in NODE} == NODE
            assert (*NODE, *labels) == wanted.labels
            found[tuple(labels.values())] = sample.total if isinstance(sample, Distribution) else sample.value
    return found


def test_every_family_is_one_that_is_declared_and_can_be_parsed(desk: Desk) -> None:
    families = joined(measure(desk.state, desk.now_ms))
    declared = {each.name: each for each in (*rocketmq.ROCKETMQ, *own.OWN)}
    assert all(_fits(family, declared[family.name]) for family in families)
    parsed = {family.name for family in text_string_to_metric_families(exposition(families))}
    assert len(parsed) == sum(1 for family in families if family.samples)


def _fits(family: Family, declared: Measure) -> bool:
    labels = all(tuple(sample.labels) == declared.labels for sample in family.samples)
    return labels and (family.kind, family.help) == (declared.kind, declared.help)


def test_what_comes_in_is_counted_by_topic_and_what_goes_out_by_group_and_topic(desk: Desk) -> None:
    Client(desk, "c-1").beat(wants())
    assert pull(desk, pull_header(1)).code == 0
    assert told(desk, rocketmq.MESSAGES_IN)["orders", "normal", "false"] == 3
    assert told(desk, rocketmq.MESSAGES_OUT) == {("orders", "billing", "false"): 2}
    assert told(desk, own.PULLS) == {("found",): 1, ("empty",): 0}
    size = told(desk, rocketmq.THROUGHPUT_IN)["orders", "normal", "false"]
    assert told(desk, rocketmq.THROUGHPUT_OUT) == {("orders", "billing", "false"): pytest.approx(size * 2 / 3)}


def test_a_message_that_waits_is_counted_where_it_waits(desk: Desk) -> None:
    desk.ask(Code.SEND_MESSAGE_V2, message("orders", "DELAY\x011"), b"later")
    assert told(desk, rocketmq.MESSAGES_IN)["SCHEDULE_TOPIC_XXXX", "delay", "true"] == 1
    assert told(desk, own.DELAYED) == {("level",): 1, ("time",): 0}


def test_a_group_is_behind_by_what_it_has_not_committed(desk: Desk) -> None:
    labels = ("billing", "orders", "false", "false")
    Client(desk, "c-1").beat(wants())
    assert told(desk, rocketmq.LAG)[labels] == 0  # nobody knows yet where it begins
    desk.state.offsets.put("billing", "orders", 0, 1)
    desk.state.offsets.note_pull("billing", "orders", 0, 2)
    desk.now_ms += 500
    assert told(desk, rocketmq.LAG)[labels] == 2
    assert told(desk, rocketmq.LAG_TIME)[labels] == 1_500
    assert told(desk, rocketmq.IN_FLIGHT)[labels] == 1
    assert told(desk, rocketmq.READY)[labels] == 1
    assert told(desk, rocketmq.QUEUEING_TIME)[labels] == 500


def test_a_group_without_members_is_still_behind(desk: Desk) -> None:
    desk.state.groups.known("billing", desk.now_ms)
    desk.state.offsets.put("billing", "orders", 0, 1)
    assert told(desk, rocketmq.LAG)["billing", "orders", "false", "false"] == 2


def test_lines_are_counted_by_language_and_release(desk: Desk) -> None:
    ours, java = Client(desk, "c-1"), Client(desk, "c-2", ours=False)
    ours.producers = java.producers = ("shop",)
    ours.beat(wants())
    java.beat(wants())
    consumers = told(desk, rocketmq.CONSUMERS)
    assert {labels[:2] for labels in consumers} == {("billing", "python"), ("billing", "java")}
    assert {labels[2] for labels in consumers} == {"v5_3_3"}
    assert {labels[3:] for labels in consumers} == {("remoting", "push", "false")}
    assert sum(told(desk, rocketmq.PRODUCERS).values()) == 2


def test_what_looks_wrong_in_a_group_is_counted(desk: Desk) -> None:
    Client(desk, "c-1").beat(wants())
    Client(desk, "c-2").beat(wants(expression="paid"))
    assert told(desk, own.HAZARDS) == {("billing", "unequal"): 1}


def test_queues_are_held_or_free_where_members_of_ours_tell(desk: Desk) -> None:
    member = Client(desk, "c-1")
    member.beat(wants())
    member.lock(0, 1)
    assert told(desk, own.GROUP_QUEUES) == {("billing", "held"): 2, ("billing", "free"): 2}
    Client(desk, "c-2", ours=False).beat(wants())
    assert told(desk, own.GROUP_QUEUES) == {}


def test_avoided_duplicates_are_summed_from_what_members_say_of_themselves(desk: Desk) -> None:
    first, second = Client(desk, "c-1"), Client(desk, "c-2")
    for member, totals in ((first, (None, 2, 5)), (second, (40, 41, 41))):
        for avoided in totals:
            member.beat(avoided=avoided)
    # What the second one had avoided before it came here is not this broker's.
    assert told(desk, own.AVOIDED) == {("billing",): 6}


def test_what_a_member_avoided_while_it_left_is_told_with_its_goodbye(desk: Desk) -> None:
    member = Client(desk, "c-1")
    member.beat(avoided=2)
    member.ask(Code.UNREGISTER_CLIENT, {"clientID": "c-1", "consumerGroup": "billing", "steelyardAvoided": "5"})
    assert told(desk, own.AVOIDED) == {("billing",): 3}


def test_dead_letters_are_counted_by_where_they_came_from(desk: Desk) -> None:
    desk.state.groups.known("billing", desk.now_ms)
    desk.ask(Code.CONSUMER_SEND_MSG_BACK, {"group": "billing", "offset": "0", "delayLevel": "-1"})
    assert told(desk, rocketmq.DEAD_LETTERS) == {("billing", "orders", "false"): 1}


def test_damage_and_a_disk_that_failed_are_seen(desk: Desk) -> None:
    assert told(desk, own.WRITABLE) == {(): 1}
    desk.state.store.damages.append(Damage("commitlog/0", 0, 100, 2))
    desk.state.store.damages.append(Damage("commitlog/0", 900, 10, 1, CUT_OFF))
    desk.state.store.refusal = "a sync failed"
    assert (told(desk, own.CORRUPT), told(desk, own.WRITABLE)) == ({(): 2}, {(): 0})


def test_there_is_an_end_to_what_is_told_and_that_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_MOST_ROWS", 5)
    for number in range(8):
        desk.ask(Code.SEND_MESSAGE_V2, message(f"topic-{number}"), b"body")
        desk.state.groups.known(f"group-{number}", desk.now_ms)
        desk.state.offsets.put(f"group-{number}", "orders", 0, 0)
    assert len(told(desk, rocketmq.MESSAGES_IN)) == len(told(desk, rocketmq.LAG)) == 5
    assert told(desk, own.LEFT_OUT) == {(): 4 + 3}


def test_a_broker_may_change_while_it_is_measured(desk: Desk) -> None:
    for number in range(10):
        Client(desk, f"c-{number}", group=f"group-{number}").beat(wants())
    measuring_now = measure(desk.state, desk.now_ms)
    found = [next(measuring_now) for _ in range(5)]
    for number in range(0, 10, 2):
        desk.state.groups.remove(f"group-{number}", desk.now_ms)
        desk.state.members.remove(next(m for m in desk.state.members if m.group == f"group-{number}"))
        desk.ask(Code.SEND_MESSAGE_V2, message(f"new-{number}"), b"body")
    assert joined([*found, *measuring_now])


def test_a_tally_counts_what_it_has_no_room_for_under_no_name() -> None:
    tally = Tally(2, most=2)
    for name in ("a", "b", "c", "d", "a"):
        tally.add(name, "orders")
    assert dict(tally) == {("a", "orders"): 2, ("b", "orders"): 1, ("", ""): 2}


def test_clients_make_up_no_series_by_what_they_say_they_are(desk: Desk) -> None:
    for number in range(80):
        body = encode_body(Heartbeat(client_id=f"p-{number}", producers=(ProducerBeat(group="shop"),)))
        language = "JAVA" if number < 70 else f'evil "{number}"'
        frame = Command(Code.HEART_BEAT, {}, body, opaque=number, version=number, language=language)
        desk.broker.handle(frame, desk.line(), desk.now_ms)
    lines = told(desk, rocketmq.PRODUCERS)
    assert lines["other", "other", "remoting"] == 10 + 21
    assert (len(lines), sum(lines.values())) == (50, 80)
    assert {language for language, *_ in lines} == {"java", "other"}


def test_a_group_in_which_nothing_moved_has_no_spread_of_gaps(desk: Desk) -> None:
    Client(desk, "c-1").locking(Code.LOCK_BATCH_MQ, [0])
    assert told(desk, own.REBALANCES) == {("billing",): 0}
    assert told(desk, own.GAPS) == told(desk, own.REBALANCE_TIME) == {}
