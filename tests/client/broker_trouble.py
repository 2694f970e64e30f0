"""What a producer does while brokers are in trouble: one story for each kind, told on whoever's servers there are.

Two loads run at once, one that rotates plainly and one that keeps a latency table, and a group reads along. Whatever
happens, no send fails that had a healthy broker to go to, and what was promised is read. What a latency table says of
itself is what it does: while it avoids a broker, next to nothing goes there.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from steelyard.balance.producer.broker_latency import LatencyTable
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.net.clock import now_ms
from tests.client.load import WAYS, Load, SendReport, Stay, reading
from tests.client.process_cluster import Ground, detour_of
from tests.interop.mixed.figures import percentile
from tests.waiting import until

Row = dict[str, object]

_AMPLE_S = 20.0
"""What sends have where all are slow: nothing is to fail there, however busy the machine is besides."""
_STRAYS = 0.05
"""The part of sends that may meet an avoided broker: a turn that was taken just before, or all were avoided."""
_PATIENCE_S = 90
_QUEUES = 4
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class TrialTimings:
    """How long things take."""

    timeout_s: float
    """Of each send."""
    table: LatencyTable
    flow: int
    """How many messages each way sends before the story goes on."""
    halted_s: float = 0.0
    """How long a broker is halted at least."""
    slow_ms: int = 800
    """How late the answers of a slow broker are."""


class Trial:
    """A story under way: what was sent since which moment."""

    def __init__(self, ground: Ground, timings: TrialTimings, plain: Load, wary: Load, seen: set[bytes]) -> None:
        self.ground, self.timings, self.plain, self.wary, self.seen = ground, timings, plain, wary, seen
        self.rows: list[Row] = []
        self._began_ms = now_ms()

    @property
    def loads(self) -> tuple[Load, Load]:
        """All that is sent."""
        return self.plain, self.wary

    def flow(self, since_ms: int | None = None) -> None:
        """Let some messages pass that begin now, or began since a moment."""
        began_ms = now_ms() if since_ms is None else since_ms
        for load in self.loads:
            load.wait_for_more(self.timings.flow, began_ms)

    def flow_and_try_new_topics(self) -> None:
        """Let some messages pass, and meanwhile send to topics that nobody made, by a producer that is new here."""
        began_ms = now_ms()
        with Producer(self.ground.namesrv, timeout_s=self.timings.timeout_s) as producer:
            topics = [f"new-{next(_numbers)}" for _ in range(2)]
            on_its_way = producer.submit(Message(topics[0], b"x"))
            producer.send(Message(topics[1], b"x"))
            on_its_way.result()
        self.flow(began_ms)

    def chapter(self, title: str) -> None:
        """Write down how the sends fared that began since the last chapter, and begin another."""
        for load, kind in zip(self.loads, ("plain", "wary"), strict=True):
            for way in WAYS:
                reported = load.since(self._began_ms, way)
                self.rows.append({"when": title, "sends": kind, "way": way, **_figures(reported)})
        self._began_ms = now_ms()

    def check_avoided(self, broker: str, since_ms: int, why: str) -> None:
        """Check that sends avoid the brokers that the latency tables avoid, once something was sent meanwhile."""
        stays = self._stays(broker, since_ms)
        assert {stay.of for stay in stays} == {"blocking", "aio"}, stays
        assert all(why in stay.why for stay in stays), stays
        until(lambda: bool(self._sent_meanwhile(broker, since_ms)), f"sending while {broker} is avoided", _PATIENCE_S)
        meant = self._sent_meanwhile(broker, since_ms)
        strays = [each for each in meant if broker in each.touched]
        assert len(strays) <= max(2, _STRAYS * len(meant)), f"{len(strays)} of {len(meant)} went to {broker}"

    def _stays(self, broker: str, since_ms: int) -> list[Stay]:
        return [stay for stay in self.wary.stays if stay.broker == broker and stay.until_ms > since_ms]

    def _sent_meanwhile(self, broker: str, since_ms: int) -> list[SendReport]:
        """Return what was begun while a latency table avoided a broker."""
        ways = {"blocking": ("blocking", "submit"), "aio": ("aio",)}
        stays = self._stays(broker, since_ms)
        return [
            each
            for each in self.wary.since(since_ms)
            if any(
                each.way in ways[stay.of] and stay.since_ms + 50 <= each.began_ms < stay.until_ms - 50 for stay in stays
            )
        ]

    def check_return(self, broker: str, since_ms: int) -> None:
        """Wait until a broker is used again by all, and check that the wary came back to it step by step."""
        for load in self.loads:
            load.wait_for_stores(broker, 1, since_ms)

        def has_come_back() -> bool:
            shares = [self.wary.shares[of, broker] for of in ("blocking", "aio")]
            return all(any(0 < share < 1 for share in each) for each in shares)

        until(has_come_back, f"{broker} coming back", _PATIENCE_S)


@contextmanager
def _under_load(
    ground: Ground, timings: TrialTimings, namesrv: str | None = None, timeout_s: float | None = None
) -> Iterator[Trial]:
    """Send and read all the while; in the end nothing has failed and nothing is lost."""
    topic = f"trouble-{next(_numbers)}"
    with Admin(ground.namesrv) as admin:
        # A name server that was started again knows nobody until the brokers have told it.
        count = len(ground.brokers)
        until(
            lambda: all(each.brokers == count for each in admin.name_servers.list()), "knowing all brokers", _PATIENCE_S
        )
        admin.topics.create(topic, _QUEUES)
    where, given_s = namesrv or ground.namesrv, timeout_s or timings.timeout_s
    with reading(ground.namesrv, topic) as seen:
        with (
            Load(where, topic, timeout_s=given_s) as plain,
            Load(where, topic, timeout_s=given_s, table=timings.table) as wary,
        ):
            trial = Trial(ground, timings, plain, wary, seen)
            for broker in ground.brokers:
                for load in trial.loads:
                    load.wait_for_stores(broker, timings.flow)
            trial.chapter("before")
            yield trial
        errors = plain.errors + wary.errors
        assert not errors, "\n".join(errors)
        acked = plain.acked | wary.acked
        until(lambda: acked <= seen, f"reading {len(acked)} messages", _PATIENCE_S)


def a_broker_is_killed(ground: Ground, timings: TrialTimings, broker: str) -> list[Row]:
    """Kill a broker and start it again: sends go elsewhere at once, and come back."""
    with _under_load(ground, timings) as trial:
        began_ms = now_ms()
        with ground.killed(broker):
            trial.wary.wait_until_avoided(broker, began_ms)
            trial.flow_and_try_new_topics()
            trial.check_avoided(broker, began_ms, "it failed")
            trial.chapter("dead")
        trial.check_return(broker, now_ms())
        trial.chapter("back")
    return trial.rows


def a_broker_is_halted(ground: Ground, timings: TrialTimings, broker: str) -> list[Row]:
    """Halt a broker, which then takes connections and never answers: the plain wait in vain at every other turn."""
    with _under_load(ground, timings) as trial:
        began_ms = now_ms()
        with ground.halted(broker):
            trial.wary.wait_until_avoided(broker, began_ms)
            trial.chapter("halted: until it was noticed")
            trial.flow_and_try_new_topics()
            until(lambda: now_ms() >= began_ms + timings.halted_s * 1000, "the end of a halt", _PATIENCE_S)
            trial.check_avoided(broker, began_ms, "it failed")
            trial.chapter("halted: from then on")
        trial.check_return(broker, now_ms())
        trial.chapter("back")
    return trial.rows


def brokers_are_slow(ground: Ground, timings: TrialTimings, broker: str) -> list[Row]:
    """Slow a broker down, then all of them: one is avoided, and all are used."""
    with detour_of(ground) as around, _under_load(ground, timings, around.namesrv, _AMPLE_S) as trial:
        began_ms = now_ms()
        around.brokers[broker].delay_ms = timings.slow_ms
        trial.wary.wait_until_avoided(broker, began_ms)
        trial.flow()
        trial.check_avoided(broker, began_ms, "it took")
        trial.chapter("one is slow")
        for proxy in around.brokers.values():
            proxy.delay_ms = timings.slow_ms
        trial.flow()
        trial.chapter("all are slow")
        for proxy in around.brokers.values():
            proxy.delay_ms = 0
        began_ms = now_ms()
        for each in ground.brokers:
            trial.check_return(each, began_ms)
        trial.chapter("back")
    return trial.rows


def a_name_server_is_lost(ground: Ground, timings: TrialTimings) -> list[Row]:
    """Kill the name server that everybody uses: who sends notices nothing, and a new topic is found at the other."""
    with _under_load(ground, timings) as trial:
        with ground.killed(ground.name_servers[0]):
            trial.flow_and_try_new_topics()
            trial.chapter("one name server is lost")
        trial.flow()
        assert not any(each.sent is not None and each.sent.attempts for load in trial.loads for each in load.reported)
    return trial.rows


def _figures(reported: Sequence[SendReport]) -> Row:
    if not reported:
        return {"messages": 0}
    took_ms = [each.took_ms for each in reported]
    return {
        "messages": len(reported),
        "again": sum(bool(each.sent and each.sent.attempts) for each in reported),
        "p50 ms": round(percentile(took_ms, 0.5), 1),
        "p99 ms": round(percentile(took_ms, 0.99), 1),
        "most ms": round(max(took_ms), 1),
    }
