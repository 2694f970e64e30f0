"""Nine incidents, each made to happen: what every tool says of it is a row of docs/reference/diagnostics.md.

A row that differs from the page fails. ``STEELYARD_WRITE_PAGES=1`` writes it anew, one test after the other.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from steelyard import Admin, Consumer, Message, Producer, StoredMessage
from steelyard.broker.metrics import collect_metrics
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.diagnostics import thresholds
from steelyard.errors import DiskFull, SteelyardError
from steelyard.metrics.families import Sample
from steelyard.net.clock import now_ms
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.disks import MemoryDisk
from steelyard.testing.fault_host import FaultHost, FaultyCluster
from steelyard.testing.faults import FaultInjector
from tests.cli.runner import RunCommand, run_command_at
from tests.dashboard.foreign_members import ForeignMember
from tests.dashboard.http_client import get, http_request
from tests.tidy.tree import ROOT
from tests.waiting import until

_PAGE = ROOT / "docs" / "reference" / "diagnostics.md"
_GROUP, _TOPIC = "billing", "orders"
_CHANGING = (
    (re.compile(r"127\.0\.0\.1:\d+"), "10.0.0.1:10911"),
    (re.compile(r"\b\d{1,3}(\.\d+){3}@(\w[\w-]*)#[\w#@]+"), r"\2"),
    (re.compile(r"\b(for|last|is|in) [\d.]+ (?:ms|s|min|h|d)(?: \d+ (?:s|min|h))?(?= in | old|:)"), r"\1 3 min"),
    (re.compile(r"\b[\d,]+ ms\b"), "800 ms"),
    (re.compile(r"\b[\d.]+ messages/s"), "2.5 messages/s"),
    (re.compile(r"it does not report its state \(.*\)"), "it does not report its state (the connection broke)"),
    (re.compile(r"grew from \d+ to \d+ messages"), "grew from 10 to 900 messages"),
)


_MEASURED_OUTSIDE = re.compile(r'^(steelyard_broker_\w+)\{.*node_id="([^"]*)".*\} (\S+)', re.MULTILINE)


def _lasting(text: str) -> str:
    """Leave out of a sentence what differs from run to run."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text


@dataclass
class Scene:
    """A cluster of two brokers with its tools, and what was opened for an incident."""

    cluster: FaultyCluster
    host: FaultHost
    run: RunCommand
    dashboard: Dashboard
    admin: Admin
    producer: Producer
    opened: ExitStack
    patch: pytest.MonkeyPatch

    def consume(self, handle: Callable[[StoredMessage], object], name: str = "c1", tags: str | None = None) -> Consumer:
        """Start a member of the group."""
        consumer = Consumer(self.cluster.namesrv, _GROUP, name=name, start_from="first")
        consumer.handles(_TOPIC, tags=tags)(handle)
        return self.opened.enter_context(consumer)

    def send(self, count: int = 1) -> None:
        """Send some messages."""
        for number in range(count):
            self.producer.send(Message(_TOPIC, b"%d" % number))

    def warnings(self) -> list[dict[str, Any]]:
        """Return the warnings of the dashboard."""
        found: list[dict[str, Any]] = get(self.dashboard, "/api/overview")["warnings"]
        return found

    def metrics(self) -> dict[str, list[Sample]]:
        """Return the samples of both brokers by the name of their family."""

        def collect(running: RunningCluster) -> dict[str, list[Sample]]:
            found: dict[str, list[Sample]] = {}
            for name in self.cluster.brokers:
                for family in collect_metrics(running.running_broker(name).broker.state, now_ms()):
                    samples = (each for each in family.samples if isinstance(each, Sample))
                    found.setdefault(family.name, []).extend(samples)
            return found

        found = self.cluster.call(collect)
        # What only a dashboard beside the cluster measures.
        text = http_request(self.dashboard, "/metrics").body.decode()
        for name, node, value in _MEASURED_OUTSIDE.findall(text):
            found.setdefault(name, []).append(Sample({"node_id": node}, float(value)))
        return found


@pytest.fixture
def scene(capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    """Run a cluster where nobody has to wait a minute for what lasts a minute."""
    host = FaultHost()
    with (
        pytest.MonkeyPatch.context() as patch,
        FaultyCluster(brokers=2, fault_host=host) as cluster,
        ExitStack() as opened,
    ):
        for name, value in (("STUCK_MS", 100), ("STUCK_CHECK_MS", 50), ("GROWING_MS", 60), ("GROWING_MESSAGES", 2)):
            patch.setattr(thresholds, name, value)
        admin = opened.enter_context(Admin(cluster.namesrv))
        dashboard = opened.enter_context(Dashboard(cluster.namesrv, DashboardOptions(port=0)))
        admin.topics.create(_TOPIC, queues=1, brokers=["broker-0"])
        producer = opened.enter_context(Producer(cluster.namesrv))
        run = run_command_at(cluster.namesrv, capsys)
        yield Scene(cluster, host, run, dashboard, admin, producer, opened, patch)


def _nothing() -> None:
    """End nothing: what was opened is closed anyway."""


def _hung(scene: Scene) -> Callable[[], object]:
    released, began = threading.Event(), threading.Event()

    def handle(message: StoredMessage) -> None:
        if message.body == b"1":
            began.set()
            released.wait(60)

    scene.send()
    scene.consume(handle)
    until(lambda: any(each.committed == 1 for each in scene.admin.offsets.list(_GROUP)))
    scene.send(2)
    until(began.is_set)
    until(lambda: any(each.committed == 2 for each in scene.admin.offsets.list(_GROUP)))
    return released.set


def _failing(scene: Scene) -> Callable[[], object]:
    def handle(_: StoredMessage) -> None:
        raise ValueError("no")

    scene.admin.groups.create(_GROUP, retries=0)
    scene.send(3)
    scene.consume(handle)
    until(lambda: sum(each.messages for each in scene.admin.dead_letters.counts()) == 3)
    return _nothing


def _duplicate(scene: Scene) -> Callable[[], object]:
    for _ in range(2):
        scene.opened.enter_context(ForeignMember(scene.cluster.namesrv)).join("c1", _GROUP, _TOPIC)
    return _nothing


def _unequal(scene: Scene) -> Callable[[], object]:
    scene.consume(lambda _: None, "c1")
    scene.consume(lambda _: None, "c2", tags="paid")
    return _nothing


def _healthy(scene: Scene) -> None:
    scene.send()
    scene.consume(lambda _: None)
    until(lambda: any(each.committed == 1 for each in scene.admin.offsets.list(_GROUP)))


def _slow(scene: Scene) -> Callable[[], object]:
    scene.patch.setattr(thresholds, "SLOW_ANSWER_MS", 100)
    scene.cluster.slow_broker("broker-1", 110)
    return lambda: scene.cluster.slow_broker("broker-1", 0)


def _lost(scene: Scene) -> Callable[[], object]:
    # As after a crash, name servers list it for a while.
    faults = FaultInjector(scene.cluster, scene.host)
    return faults.cut("broker-1").heal


def _full(scene: Scene) -> Callable[[], object]:
    def write(*_: object) -> int:
        raise DiskFull("write", path="commitlog/00000000000000000000", why="no space left on device")

    scene.patch.setattr("steelyard.serve.disks._MemoryFile.write", write)
    scene.patch.setattr(MemoryDisk, "size_bytes", lambda _: 1_000)
    scene.patch.setattr(MemoryDisk, "free_bytes", lambda _: 20)
    with pytest.raises(SteelyardError):
        scene.send()
    return _nothing


def _deserted(scene: Scene) -> Callable[[], object]:
    handled = threading.Event()
    scene.send()
    consumer = Consumer(scene.cluster.namesrv, _GROUP, name="c1", start_from="first")
    consumer.handles(_TOPIC)(lambda _: handled.set())
    with consumer:
        until(handled.is_set)
    scene.send(2)
    return _nothing


def _growing(scene: Scene) -> Callable[[], object]:
    ended, sending = threading.Event(), threading.Event()

    def handle(_: StoredMessage) -> None:
        ended.wait(0.2)

    def send_more() -> None:
        while not ended.wait(0.002):
            scene.send()
            sending.set()

    consumer = Consumer(scene.cluster.namesrv, _GROUP, name="c1", start_from="first", workers=1)
    consumer.handles(_TOPIC)(handle)
    scene.opened.enter_context(consumer)
    thread = threading.Thread(target=send_more)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()

    until(sending.is_set)
    return end


@dataclass(frozen=True, kw_only=True)
class Incident:
    """What happened, how it is made to happen, and where it is looked for."""

    name: str
    rules: tuple[str, ...]
    """The rules that find it; one tool may see one of them only."""
    create: Callable[[Scene], Callable[[], object]]
    """Makes it happen, and returns what ends it."""
    is_brokers: bool = False
    """Whether `check cluster` reports it, and not `check group`."""
    metric: str = ""
    shows: Callable[[Sample], bool] = lambda sample: sample.value > 0
    takes_time: bool = False
    """Whether one look is not enough to see it."""


def _kind(rule: str) -> Callable[[Sample], bool]:
    return lambda sample: sample.labels.get("warning") == rule and sample.value > 0


def _is_zero(sample: Sample) -> bool:
    return sample.value == 0


_FINDINGS = "steelyard_group_warnings"
_INCIDENTS = (
    Incident(name="a hung handler", rules=("stuck",), create=_hung, metric="steelyard_consumer_seconds_since_progress"),
    Incident(
        name="a failing handler",
        rules=("failing handler", "dead letters", "growing dead letters"),
        create=_failing,
        metric="rocketmq_send_to_dlq_messages_total",
    ),
    Incident(
        name="a duplicate client id",
        rules=("duplicate id",),
        create=_duplicate,
        metric=_FINDINGS,
        shows=_kind("duplicate id"),
    ),
    Incident(
        name="different subscriptions",
        rules=("unequal filters",),
        create=_unequal,
        metric=_FINDINGS,
        shows=_kind("unequal filters"),
    ),
    Incident(
        name="a slow broker",
        rules=("slow",),
        create=_slow,
        is_brokers=True,
        metric="steelyard_broker_answer_seconds",
        shows=lambda sample: sample.value >= 0.1,
    ),
    Incident(
        name="a lost broker",
        rules=("silent", "unreachable"),
        create=_lost,
        is_brokers=True,
        metric="steelyard_broker_reached",
        shows=_is_zero,
    ),
    Incident(
        name="a full disk",
        rules=("rejecting", "disk"),
        create=_full,
        is_brokers=True,
        metric="steelyard_storage_writable",
        shows=_is_zero,
    ),
    Incident(
        name="a group without members",
        rules=("no members",),
        create=_deserted,
        metric="rocketmq_consumer_lag_messages",
    ),
    Incident(
        name="growing lag",
        rules=("growing lag",),
        create=_growing,
        metric="rocketmq_consumer_lag_messages",
        takes_time=True,
    ),
)


@pytest.mark.parametrize("incident", _INCIDENTS, ids=[each.name for each in _INCIDENTS])
def test_every_tool_reports_an_incident_as_the_page_says(incident: Incident, scene: Scene) -> None:
    if incident.is_brokers:
        _healthy(scene)
    end = incident.create(scene)
    try:
        row = _row(incident, scene)
    finally:
        end()
    page = _PAGE.read_text(encoding="utf-8").splitlines()
    (at,) = [number for number, line in enumerate(page) if line.startswith(f"| {incident.name} |")]
    if os.environ.get("STEELYARD_WRITE_PAGES") == "1":
        page[at] = row
        _PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")
    assert page[at] == row, "write it anew: STEELYARD_WRITE_PAGES=1 pytest tests/diagnostics/test_incidents.py"


def _row(incident: Incident, scene: Scene) -> str:
    """Look at an incident with every tool, and return what each says of it."""
    warned: list[dict[str, Any]] = []

    def is_on_the_dashboard() -> bool:
        warned[:] = _warned(incident, scene)
        return bool(warned)

    until(is_on_the_dashboard, f"the dashboard reports {incident.name}")
    if incident.metric:
        until(lambda: any(map(incident.shows, scene.metrics().get(incident.metric, ()))), incident.metric)
    more = ("--every", "100ms", "--count", "6") if incident.takes_time else ()
    what = ("cluster",) if incident.is_brokers else ("group", _GROUP)
    lines = scene.run("check", *what, *more, "--output", "jsonl").lines
    checked = next((each for each in lines if _of(incident, each["findings"])), lines[-1])
    found = {
        "explain": _of(incident, scene.run("group", "explain", _GROUP, "--output", "json").json["findings"]),
        "check": _of(incident, checked["findings"]),
        "doctor": _of(incident, scene.run("doctor", "--output", "jsonl").lines),
        "dashboard": warned,
    }
    assert bool(found["check"]) == (checked["exit"] > 0)
    said = (each.get("message") or each["what"] for each in (*found["check"], *found["doctor"]))
    sentences = dict.fromkeys(map(_lasting, said))
    cells = [
        incident.name,
        "<br>".join(sentences),
        *(_MARKS[tool, min((each["severity"] for each in rows), default="")] for tool, rows in found.items()),
        f"`{incident.metric}`" if incident.metric else _NONE,
    ]
    return f"| {' | '.join(cells)} |"


_NONE = "-"
_MARKS = {
    **{(tool, ""): _NONE for tool in ("explain", "check", "doctor", "dashboard")},
    **{("explain", each): "look" for each in ("warning", "error")},
    ("check", "warning"): "WARNING",
    ("check", "error"): "CRITICAL",
    ("doctor", "warning"): "look",
    ("doctor", "error"): "wrong",
    ("dashboard", "warning"): "warning",
    ("dashboard", "error"): "severe",
}


def _of(incident: Incident, findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in findings if each["kind"].partition(":")[0] in incident.rules]


def _warned(incident: Incident, scene: Scene) -> list[dict[str, Any]]:
    """Return what the dashboard says, in the words of the others."""
    return [
        {"severity": "error" if each["is_severe"] else "warning", "message": each["sentence"]}
        for each in scene.warnings()
        if each["kind"] in incident.rules
    ]
