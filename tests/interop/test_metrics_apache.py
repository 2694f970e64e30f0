"""The same story told to a broker of 5.5.0 and to ours: where they tell the same families they tell the same of it.

A label that Apache's exporter adds by itself, ``otel_scope_name``, is not ours to tell. Apache's other families are
listed here, so that a new one is seen.
"""

import asyncio
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from steelyard.aio import Admin as AsyncAdmin
from steelyard.dashboard.metrics import collect_cluster_metrics
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.exposition import format_exposition
from steelyard.metrics.families import MetricFamily, MetricSpec, MetricType
from steelyard.serve.embedded import Cluster
from steelyard.serve.metrics import collect_server_metrics
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendMessageBack
from steelyard.wire.message_ids import parse_offset_id
from tests.interop.jars import RELEASE_5, SERVER_RELEASES, NotReady
from tests.interop.servers import WireConnection, apache, free_port

pytestmark = pytest.mark.timeout(240)

T = TypeVar("T")

_SENT, _MORE = 20, 5
_PATIENCE_S = 60
_EXPORTERS_OWN = {"otel_scope_name"}
_NOT_OURS = re.compile(
    r"rocketmq_(pop_.*|timer_.*|timing_messages|delay_message_latency.*|processor_watermark|message_size"
    r"|rpc_latency_milliseconds|finish_message_latency_milliseconds"
    r"|(topic|consumer_group)_create_execution_time_milliseconds)|target(_info)?"
)


@dataclass(frozen=True, slots=True)
class Reported:
    """What a broker tells after the story."""

    namesrv: str
    port: int
    scrape: Callable[[], str]

    def families(self) -> dict[str, Metric]:
        """Scrape it, by the names that samples have."""
        found = text_string_to_metric_families(self.scrape())
        return {f"{each.name}_total" if each.type == "counter" else each.name: each for each in found}


@contextmanager
def of_apache(root: Path, release: str = RELEASE_5) -> Iterator[Reported]:
    """Run Apache's broker."""
    port = free_port()
    settings: dict[str, object] = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": port,
        "metricsPromExporterHost": "127.0.0.1",
    }
    try:
        with apache(release, root, **(settings if release == RELEASE_5 else {})) as broker:
            yield Reported(f"127.0.0.1:{broker.name_port}", broker.port, lambda: _fetched(port))
    except NotReady as problem:
        pytest.skip(str(problem))


def _fetched(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: bytes = answer.read()
    return text.decode()


@contextmanager
def of_ours(root: Path) -> Iterator[Reported]:
    """Run our broker."""
    with Cluster(data=root, cluster="steelyard", broker_name="broker-a") as cluster:
        port = int(cluster.brokers["broker-a"].rpartition(":")[2])
        yield Reported(cluster.namesrv, port, lambda: format_exposition(cluster.run(collect_server_metrics)))


@contextmanager
def activity(reported: Reported) -> Iterator[None]:
    """Send and handle messages, end transactions, lose one to the dead letters; then a member has some in hand."""
    with Admin(reported.namesrv) as admin, Producer(reported.namesrv, group="shop") as producer:
        _patiently(lambda: admin.topics.create("orders", queues=1))
        admin.groups.create("billing")
        first = _patiently(lambda: producer.send(Message("orders", b"x" * 100)))
        for _ in range(_SENT - 1):
            producer.send(Message("orders", b"x" * 100))
        producer.send(Message("orders", b"later"), delay_s=10)
        with producer.transaction(Message("paid", b"yes")):
            pass
        with suppress(ZeroDivisionError), producer.transaction(Message("paid", b"no")):
            raise ZeroDivisionError
        producer.transaction(Message("paid", b"not yet")).begin()
        _give_up(reported.port, parse_offset_id(first.offset_id)[1])
        with _member(reported.namesrv, admin):
            for _ in range(_MORE):
                producer.send(Message("orders", b"x" * 100))
            yield


def _patiently(act: Callable[[], T]) -> T:
    """Do what a server that has just started may not be ready for."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return act()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _give_up(port: int, position: int) -> None:
    connection = WireConnection(port)
    try:
        back = SendMessageBack(position, "billing", -1, origin_topic="orders", max_reconsume_times=3)
        assert connection.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    finally:
        connection.close()


@contextmanager
def _member(namesrv: str, admin: Admin) -> Iterator[None]:
    """Run a member that has committed what was sent, and holds whatever comes then."""
    go_on, handled = threading.Event(), threading.Semaphore(0)
    consumer = Consumer(namesrv, group="billing", start_from="first")

    @consumer.handles("orders")
    def handle(message: ReceivedMessage) -> None:
        if message.offset >= _SENT:
            go_on.wait(_PATIENCE_S)
        handled.release()

    with consumer:
        for _ in range(_SENT):
            assert handled.acquire(timeout=_PATIENCE_S)
        _until(lambda: sum(each.committed or 0 for each in admin.groups.describe("billing").queues) >= _SENT)
        try:
            yield
        finally:
            go_on.set()


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.1)


def _labels(family: Metric) -> set[frozenset[str]]:
    return {frozenset(sample.labels) - _EXPORTERS_OWN for sample in family.samples}


def _number(reported: Reported, wanted: MetricSpec, **labels: str) -> float | None:
    family = reported.families().get(wanted.name)
    samples = [] if family is None else family.samples
    found = [each.value for each in samples if labels.items() <= each.labels.items()]
    return sum(found) if found else None


LIKE = {
    "what was sent": (rocketmq.MESSAGES_IN, {"topic": "orders", "message_type": "normal"}, _SENT + _MORE),
    "a message that waits": (rocketmq.MESSAGES_IN, {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay"}, 1),
    "halves": (rocketmq.MESSAGES_IN, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "message_type": "transaction"}, 3),
    "what was got": (rocketmq.MESSAGES_OUT, {"topic": "orders", "consumer_group": "billing"}, _SENT + _MORE),
    "what is not committed": (rocketmq.CONSUMER_LAG, {"topic": "orders", "consumer_group": "billing"}, _MORE),
    "what is in hand": (rocketmq.CONSUMER_INFLIGHT, {"topic": "orders", "consumer_group": "billing"}, _MORE),
    "what nobody has yet": (rocketmq.CONSUMER_READY, {"topic": "orders", "consumer_group": "billing"}, 0),
    "the member": (
        rocketmq.CONSUMER_CONNECTIONS,
        {"consumer_group": "billing", "language": "python", "version": "v5_3_3"},
        1,
    ),
    "the dead letter": (rocketmq.DEAD_LETTERS, {"consumer_group": "billing", "topic": "orders"}, 1),
    "the commit": (rocketmq.COMMITTED_TRANSACTIONS, {"topic": "paid"}, 1),
    "the roll-back": (rocketmq.ROLLED_BACK_TRANSACTIONS, {"topic": "paid"}, 1),
    "the open transaction": (rocketmq.HALF_MESSAGES, {"topic": "paid"}, 1),
    "permission": (rocketmq.BROKER_PERMISSION, {"cluster": "steelyard", "node_id": "broker-a"}, 6),
    "nothing to dispatch": (rocketmq.DISPATCH_BEHIND, {"storage_type": "local", "storage_medium": "disk"}, 0),
}
"""What both must tell: the family, some labels, and the number."""


def test_families_labels_and_numbers_are_those_of_a_real_broker(tmp_path: Path) -> None:
    seen = {}
    for who, running in (("apache", of_apache(tmp_path / "apache")), ("ours", of_ours(tmp_path / "ours"))):
        with running as reported, activity(reported):
            for what, (measure, labels, number) in LIKE.items():
                _agrees(f"{who}: {what}", reported, measure, labels, number)
            seen[who] = reported.families()
    ours, theirs = seen["ours"], seen["apache"]
    for measure in rocketmq.ROCKETMQ_METRICS:
        assert measure.name in theirs, f"{measure.name} is no name of Apache's; it has {sorted(theirs)}"
        assert theirs[measure.name].type == str(measure.kind)
        assert _labels(theirs[measure.name]) == {frozenset(measure.labels)}, measure.name
        assert _labels(ours[measure.name]) == {frozenset(measure.labels)}, measure.name
    declared = {measure.name for measure in rocketmq.ROCKETMQ_METRICS}
    assert [name for name in theirs if name not in declared and not _NOT_OURS.fullmatch(name)] == []


def _agrees(what: str, reported: Reported, measure: MetricSpec, labels: dict[str, str], number: float) -> None:
    """Wait for a number: it may take a moment until a member has pulled, or a half was looked at."""
    end = time.monotonic() + _PATIENCE_S
    while (found := _number(reported, measure, **labels)) != number:
        assert time.monotonic() < end, f"{what}: {measure.name} {labels} is {found}, and not {number}"
        time.sleep(0.2)


@pytest.mark.parametrize("release", SERVER_RELEASES)
def test_apaches_brokers_are_measured_from_outside(tmp_path: Path, release: str) -> None:
    async def collect(namesrv: str) -> list[MetricFamily]:
        async with AsyncAdmin(namesrv) as admin:
            return await collect_cluster_metrics(admin)

    with of_apache(tmp_path, release) as reported, activity(reported):
        families = {family.name: family for family in asyncio.run(collect(reported.namesrv))}
    found = {
        (measure, sample.labels["topic"] if "topic" in sample.labels else ""): getattr(sample, "value", 0)
        for measure in (
            own.BROKER_REACHED,
            own.BROKER_ANSWER,
            own.QUESTIONS_UNANSWERED,
            rocketmq.CONSUMER_LAG,
            rocketmq.CONSUMER_CONNECTIONS,
            rocketmq.MESSAGES_IN,
        )
        for sample in families[measure.name].samples
    }
    assert (found[own.BROKER_REACHED, ""], found[own.QUESTIONS_UNANSWERED, ""]) == (1, 0)
    assert found[rocketmq.CONSUMER_LAG, "orders"] == _MORE
    assert found[rocketmq.MESSAGES_IN, "orders"] == _SENT + _MORE
    assert found[rocketmq.CONSUMER_CONNECTIONS, ""] == 1
    # How long messages wait nobody tells who is asked.
    assert rocketmq.CONSUMER_LAG_LATENCY.name not in families
    assert all(family.kind is not MetricType.HISTOGRAM for family in families.values())
