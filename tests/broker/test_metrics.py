"""The metrics of a broker."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from steelyard.broker import metrics
from steelyard.broker.metrics import collect_metrics
from steelyard.broker.stats import LabeledCounter
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.exposition import format_exposition
from steelyard.metrics.families import HistogramSample, MetricFamily, MetricSpec, merge_families
from steelyard.store.log_scan import Damage
from steelyard.store.recovery import CUT_OFF
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import HeartbeatBody, ProducerHeartbeat
from steelyard.wire.bodies.topics import TopicConfig
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, connections, subscription_to
from tests.broker.pull_requests import pull, pull_header

NODE = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-0"}


@pytest.fixture
def harness() -> BrokerHarness:
    """Run a broker with the topic orders: four queues, three messages in the first one, a second apart."""
    harness = BrokerHarness()
    harness.state.topics.put(TopicConfig(name="orders", read_queues=4, write_queues=4, attributes={}), harness.now_ms)
    for _ in range(3):
        harness.now_ms += 1_000
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"body")
    return harness


def reported(harness: BrokerHarness, wanted: MetricSpec) -> dict[tuple[str, ...], float]:
    """Return the numbers of a family, by its labels but those of the broker."""
    found = {}
    for family in merge_families(collect_metrics(harness.state, harness.now_ms)):
        for sample in family.samples if family.name == wanted.name else ():
            labels = dict(sample.labels)
            assert {name: labels.pop(name) for name in NODE} == NODE
            assert (*NODE, *labels) == wanted.labels
            found[tuple(labels.values())] = sample.total if isinstance(sample, HistogramSample) else sample.value
    return found


def test_every_family_is_one_that_is_declared_and_can_be_parsed(harness: BrokerHarness) -> None:
    families = merge_families(collect_metrics(harness.state, harness.now_ms))
    declared = {each.name: each for each in (*rocketmq.ROCKETMQ_METRICS, *own.STEELYARD_METRICS)}
    assert all(_fits(family, declared[family.name]) for family in families)
    parsed = {family.name for family in text_string_to_metric_families(format_exposition(families))}
    assert len(parsed) == sum(1 for family in families if family.samples)


def _fits(family: MetricFamily, declared: MetricSpec) -> bool:
    labels = all(tuple(sample.labels) == declared.labels for sample in family.samples)
    return labels and (family.kind, family.help) == (declared.kind, declared.help)


def test_what_comes_in_is_counted_by_topic_and_what_goes_out_by_group_and_topic(harness: BrokerHarness) -> None:
    FakeConsumer(harness, "c-1").heartbeat(subscription_to())
    assert pull(harness, pull_header(1)).code == 0
    assert reported(harness, rocketmq.MESSAGES_IN)["orders", "normal", "false"] == 3
    assert reported(harness, rocketmq.MESSAGES_OUT) == {("orders", "billing", "false"): 2}
    assert reported(harness, own.PULLS) == {("found",): 1, ("empty",): 0}
    size = reported(harness, rocketmq.THROUGHPUT_IN)["orders", "normal", "false"]
    assert reported(harness, rocketmq.THROUGHPUT_OUT) == {("orders", "billing", "false"): pytest.approx(size * 2 / 3)}


def test_a_message_that_waits_is_counted_where_it_waits(harness: BrokerHarness) -> None:
    harness.request(Code.SEND_MESSAGE_V2, message("orders", "DELAY\x011"), b"later")
    assert reported(harness, rocketmq.MESSAGES_IN)["SCHEDULE_TOPIC_XXXX", "delay", "true"] == 1
    assert reported(harness, own.DELAYED_MESSAGES) == {("level",): 1, ("time",): 0}


def test_a_group_is_behind_by_what_it_has_not_committed(harness: BrokerHarness) -> None:
    labels = ("billing", "orders", "false", "false")
    FakeConsumer(harness, "c-1").heartbeat(subscription_to())
    assert reported(harness, rocketmq.CONSUMER_LAG)[labels] == 0  # nobody knows yet where it begins
    harness.state.offsets.put("billing", "orders", 0, 1)
    harness.state.offsets.record_pull("billing", "orders", 0, 2)
    harness.now_ms += 500
    assert reported(harness, rocketmq.CONSUMER_LAG)[labels] == 2
    assert reported(harness, rocketmq.CONSUMER_LAG_LATENCY)[labels] == 1_500
    assert reported(harness, rocketmq.CONSUMER_INFLIGHT)[labels] == 1
    assert reported(harness, rocketmq.CONSUMER_READY)[labels] == 1
    assert reported(harness, rocketmq.CONSUMER_QUEUEING_LATENCY)[labels] == 500


def test_no_progress_counts_from_the_last_commit_that_moved_or_the_oldest_message_that_waits(
    harness: BrokerHarness,
) -> None:
    def still_s() -> float:
        return reported(harness, own.SECONDS_SINCE_PROGRESS)["billing", "orders"]

    def commit(offset: int) -> None:
        assert member.request(Code.UPDATE_CONSUMER_OFFSET, commit_fields | {"commitOffset": str(offset)}).code == 0

    commit_fields = {"consumerGroup": "billing", "topic": "orders", "queueId": "0"}
    member = FakeConsumer(harness, "c-1", ours=False)
    member.heartbeat(subscription_to())
    commit(1)
    assert still_s() == 0
    harness.now_ms += 70_000
    commit(1)
    assert still_s() == 70, "a commit that moves nothing is no progress"
    view = connections(harness).steelyard
    assert view is not None
    (waiting,) = view.waiting or ()
    assert (waiting.topic, waiting.queue_id, waiting.offset, waiting.lag) == ("orders", 0, 1, 2)
    assert waiting.still_ms == 70_000
    commit(2)
    assert still_s() == 0
    harness.now_ms += 200_000
    assert still_s() == 200
    commit(3)
    harness.now_ms += 200_000
    assert still_s() == 0, "nothing waits"
    harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"late")
    assert still_s() < 1, "what waits just came"


def test_a_group_without_members_is_still_behind(harness: BrokerHarness) -> None:
    harness.state.groups.get_or_create("billing", harness.now_ms)
    harness.state.offsets.put("billing", "orders", 0, 1)
    assert reported(harness, rocketmq.CONSUMER_LAG)["billing", "orders", "false", "false"] == 2


def test_connections_are_counted_by_language_and_release(harness: BrokerHarness) -> None:
    ours, java = FakeConsumer(harness, "c-1"), FakeConsumer(harness, "c-2", ours=False)
    ours.producers = java.producers = ("shop",)
    ours.heartbeat(subscription_to())
    java.heartbeat(subscription_to())
    consumers = reported(harness, rocketmq.CONSUMER_CONNECTIONS)
    assert {labels[:2] for labels in consumers} == {("billing", "python"), ("billing", "java")}
    assert {labels[2] for labels in consumers} == {"v5_3_3"}
    assert {labels[3:] for labels in consumers} == {("remoting", "push", "false")}
    assert sum(reported(harness, rocketmq.PRODUCER_CONNECTIONS).values()) == 2


def test_what_looks_wrong_in_a_group_is_counted(harness: BrokerHarness) -> None:
    FakeConsumer(harness, "c-1").heartbeat(subscription_to())
    FakeConsumer(harness, "c-2").heartbeat(subscription_to(expression="paid"))
    assert reported(harness, own.GROUP_WARNINGS) == {("billing", "unequal filters"): 1}


def test_queues_are_held_or_free_where_members_of_ours_tell(harness: BrokerHarness) -> None:
    member = FakeConsumer(harness, "c-1")
    member.heartbeat(subscription_to())
    member.lock(0, 1)
    assert reported(harness, own.GROUP_QUEUES) == {("billing", "held"): 2, ("billing", "free"): 2}
    FakeConsumer(harness, "c-2", ours=False).heartbeat(subscription_to())
    assert reported(harness, own.GROUP_QUEUES) == {}


def test_avoided_duplicates_are_summed_from_what_members_say_of_themselves(harness: BrokerHarness) -> None:
    first, second = FakeConsumer(harness, "c-1"), FakeConsumer(harness, "c-2")
    for member, totals in ((first, (None, 2, 5)), (second, (40, 41, 41))):
        for avoided in totals:
            member.heartbeat(avoided=avoided)
    # What the second one had avoided before it came here is not this broker's.
    assert reported(harness, own.DUPLICATES_AVOIDED) == {("billing",): 6}


def test_what_a_member_avoided_while_it_left_is_reported_with_its_unregistration(harness: BrokerHarness) -> None:
    member = FakeConsumer(harness, "c-1")
    member.heartbeat(avoided=2)
    member.request(Code.UNREGISTER_CLIENT, {"clientID": "c-1", "consumerGroup": "billing", "steelyardAvoided": "5"})
    assert reported(harness, own.DUPLICATES_AVOIDED) == {("billing",): 3}


def test_dead_letters_are_counted_by_where_they_came_from(harness: BrokerHarness) -> None:
    harness.state.groups.get_or_create("billing", harness.now_ms)
    harness.request(Code.CONSUMER_SEND_MSG_BACK, {"group": "billing", "offset": "0", "delayLevel": "-1"})
    assert reported(harness, rocketmq.DEAD_LETTERS) == {("billing", "orders", "false"): 1}


def test_damage_and_a_disk_that_failed_are_seen(harness: BrokerHarness) -> None:
    assert reported(harness, own.STORAGE_WRITABLE) == {(): 1}
    harness.state.store.damages.append(Damage("commitlog/0", 0, 100, 2))
    harness.state.store.damages.append(Damage("commitlog/0", 900, 10, 1, CUT_OFF))
    harness.state.store.read_only_reason = "a sync failed"
    assert (reported(harness, own.CORRUPT_RECORDS), reported(harness, own.STORAGE_WRITABLE)) == ({(): 2}, {(): 0})


def test_there_is_an_end_to_what_is_reported_and_that_is_reported(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_MAX_ROWS", 5)
    for number in range(8):
        harness.request(Code.SEND_MESSAGE_V2, message(f"topic-{number}"), b"body")
        harness.state.groups.get_or_create(f"group-{number}", harness.now_ms)
        harness.state.offsets.put(f"group-{number}", "orders", 0, 0)
    assert len(reported(harness, rocketmq.MESSAGES_IN)) == len(reported(harness, rocketmq.CONSUMER_LAG)) == 5
    assert reported(harness, own.SAMPLES_LEFT_OUT) == {(): 4 + 3}


def test_a_broker_may_change_while_it_is_measured(harness: BrokerHarness) -> None:
    for number in range(10):
        FakeConsumer(harness, f"c-{number}", group=f"group-{number}").heartbeat(subscription_to())
    measuring_now = collect_metrics(harness.state, harness.now_ms)
    found = [next(measuring_now) for _ in range(5)]
    for number in range(0, 10, 2):
        harness.state.groups.remove(f"group-{number}", harness.now_ms)
        harness.state.consumers.remove(next(m for m in harness.state.consumers if m.group == f"group-{number}"))
        harness.request(Code.SEND_MESSAGE_V2, message(f"new-{number}"), b"body")
    assert merge_families([*found, *measuring_now])


def test_a_tally_counts_what_it_has_no_room_for_under_no_name() -> None:
    tally = LabeledCounter(2, max_label_sets=2)
    for name in ("a", "b", "c", "d", "a"):
        tally.add(name, "orders")
    assert dict(tally) == {("a", "orders"): 2, ("b", "orders"): 1, ("", ""): 2}


def test_groups_make_up_no_series_without_end(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MAX_GROUPS", 3)
    before = reported(harness, own.SAMPLES_LEFT_OUT)[()]
    for number in range(5):
        FakeConsumer(harness, f"c-{number}", group=f"group-{number}").heartbeat(subscription_to())
    assert len(reported(harness, rocketmq.CONSUMER_CONNECTIONS)) == 3
    assert reported(harness, own.SAMPLES_LEFT_OUT)[()] - before == 2


def test_clients_make_up_no_series_by_what_they_say_they_are(harness: BrokerHarness) -> None:
    for number in range(80):
        body = encode_body(HeartbeatBody(client_id=f"p-{number}", producers=(ProducerHeartbeat(group="shop"),)))
        language = "JAVA" if number < 70 else f'evil "{number}"'
        frame = Command(Code.HEART_BEAT, {}, body, opaque=number, version=number, language=language)
        harness.broker.handle(frame, harness.connect(), harness.now_ms)
    clients = reported(harness, rocketmq.PRODUCER_CONNECTIONS)
    assert clients["other", "other", "remoting"] == 10 + 21
    assert (len(clients), sum(clients.values())) == (50, 80)
    assert {language for language, *_ in clients} == {"java", "other"}


def test_a_group_in_which_nothing_moved_has_no_spread_of_gaps(harness: BrokerHarness) -> None:
    FakeConsumer(harness, "c-1").request_locks(Code.LOCK_BATCH_MQ, [0])
    assert reported(harness, own.REBALANCES) == {("billing",): 0}
    assert reported(harness, own.HANDOVER_GAP) == reported(harness, own.REBALANCE_DURATION) == {}
