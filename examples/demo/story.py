"""The scenes of the demo. Each waits for what it shows, and fails if that does not happen.

Two brokers, producers, and a group that consumers join and in which one is killed; Spark streams the topic, is killed
too and resumes; a broker becomes slow, and producers route around it; finally the delivery report. Everything is in
memory or in a temporary directory, on free loopback ports, and gone at the end. Ctrl-C, SIGTERM and a closed terminal
take effect at the next wait, so that nothing is left behind; a second signal makes it no faster.
"""

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.demo.consumers import ConsumerProcesses
from examples.demo.delivery_report import DeliveryLog, DemoReport, SparkReport
from examples.demo.producers import ProducerThreads
from examples.demo.screen import DemoScreen
from examples.demo.spark_process import SparkProcess
from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for
from steelyard.cli.shared.terminal import StopSignal, guard_output, make_console, print_error
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.dashboard.server import Dashboard, is_installed
from steelyard.errors import JobFailed, SteelyardError, TimedOut
from steelyard.model import Queue
from steelyard.testing.fault_host import FaultyCluster

_POLL_EVERY_S = 0.01
_REPORT_EVERY_S = 5.0


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Record stop signals; one that was ignored before (nohup) stays ignored."""
    stop = StopSignal()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in signals}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number in handled:
            signal.signal(number, before[number])


class Waiter:
    """Waits, and raises KeyboardInterrupt when stopped.

    ``failure`` names a possible cause, ``report`` prints every few seconds what is waited for, and ``activity`` may
    describe it better.
    """

    def __init__(
        self,
        stop: StopSignal,
        seconds: float,
        failure: Callable[[], str],
        report: Callable[[str], None],
        activity: Callable[[], str] = str,
    ) -> None:
        self._stop, self._seconds = stop, seconds
        self._failure, self._report, self._activity = failure, report, activity

    def pause(self, seconds: float) -> None:
        """Wait a while."""
        if self._stop.wait(seconds):
            signal.default_int_handler(signal.SIGINT, None)

    def wait_for(self, what: str, is_so: Callable[[], bool]) -> bool:
        """Wait until a condition holds; return False after the timeout."""
        begin = time.monotonic()
        report_s = _REPORT_EVERY_S
        while not is_so():
            waited_s = time.monotonic() - begin
            if waited_s >= self._seconds:
                return False
            if waited_s >= report_s:
                self._report(f"{report_s:.0f} s: {self._activity() or f'still waiting until {what}'}")
                report_s += _REPORT_EVERY_S
            self.pause(_POLL_EVERY_S)
        return True

    def wait_for_or_fail(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until a condition holds; raise TimedOut after the timeout."""
        if not self.wait_for(what, is_so):
            cause = self._failure()
            raise TimedOut(f"the demo ends here: that {what} did not come true{f' ({cause})' if cause else ''}")


TOPIC, GROUP = "orders", "billing"
QUEUES = 8
"""Queues of the topic on each broker."""

_SLOW_MS = 800
_TIMEOUT_S = 30.0
_SPARK_TIMEOUT_S = 150.0
"""Java and Spark are slow on a busy machine, and the first time Python compiles what their workers import."""


def main(pause_s: float = 1.5) -> int:
    """Run the demo; ``pause_s`` is the pause after each scene."""
    return guard_output(lambda: _run(pause_s))


def _run(pause_s: float) -> int:
    try:
        with catch_stop_signals() as stop, ExitStack() as stack:
            return _Story(stack, stop, pause_s).run()
    except SteelyardError as error:
        return print_error(str(error), exit_code_for(error))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


class _Story:
    def __init__(self, stack: ExitStack, stop: StopSignal, pause_s: float) -> None:
        self._pause_s = pause_s
        console = make_console()
        console.print("Steelyard: a consumer group rebalances while things go wrong\n", style="bold")
        start = time.monotonic()
        self._cluster = cluster = stack.enter_context(FaultyCluster(brokers=2))
        with Admin(cluster.namesrv) as admin:
            admin.topics.create(TOPIC, QUEUES)
        took_ms = (time.monotonic() - start) * 1000
        self._slow = list(cluster.brokers)[-1]
        queues = [Queue(TOPIC, broker, number) for broker in cluster.brokers for number in range(QUEUES)]
        self._screen = DemoScreen(console, queues)
        self._screen.print_event(
            f"two brokers are up after {took_ms:.0f} ms, with {len(queues)} queues for the topic {TOPIC}"
        )
        self._serve_dashboard(stack)
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-demo-")))
        self._delivery_log = DeliveryLog()
        self._consumers = ConsumerProcesses(cluster.namesrv, TOPIC, GROUP, self._delivery_log)
        stack.callback(self._consumers.end)
        producer = stack.enter_context(Producer(cluster.namesrv, "shop", avoid_slow_brokers=True))
        self._producers = ProducerThreads(producer, TOPIC, self._delivery_log)
        stack.callback(self._producers.stop)
        self._spark = SparkProcess(cluster.namesrv, TOPIC, directory, self._screen.begin_ms)
        stack.callback(self._spark.kill)
        report = self._screen.print_detail
        self._waiter = Waiter(stop, _TIMEOUT_S, lambda: "; ".join(self._consumers.unexpected_output[-3:]), report)
        self._spark_waiter = Waiter(
            stop, _SPARK_TIMEOUT_S, lambda: self._spark.failure, report, lambda: self._spark.activity
        )
        self._has_spark = False

    def _serve_dashboard(self, stack: ExitStack) -> None:
        """Serve the dashboard, if its extra is installed."""
        if is_installed():
            dashboard = stack.enter_context(Dashboard(self._cluster.namesrv))
            self._screen.print_event(f"see it in a browser, while this runs: {dashboard.link(f'groups/{GROUP}')}")

    def run(self) -> int:
        """Run all scenes."""
        self._spark_starts()
        self._members_come()
        self._one_is_killed()
        self._spark_is_killed()
        self._a_broker_is_slow()
        return self._the_proof()

    def _members_come(self) -> None:
        self._producers.start()
        self._screen.print_event("producers send; members join one after the other, and share the queues")
        self._screen.print_blank()
        self._screen.print_grid_head()
        for label, name, shares in (
            ("c1 is alone", "c1", (16,)),
            ("c2 joins", "c2", (8, 8)),
            ("c3 joins", "c3", (6, 5, 5)),
        ):
            self._consumers.start(name)
            self._wait_for_queue_counts(shares)
            self._screen.print_grid_row(label, self._consumers.owners())
            self._waiter.pause(self._pause_s)

    def _one_is_killed(self) -> None:
        killed_ms = time.time() * 1000
        self._consumers.kill("c2")
        self._wait_for_queue_counts((8, 8))
        took_ms = self._consumers.settled_ms() - killed_ms
        self._screen.print_grid_row("c2 is killed (-9)", self._consumers.owners())
        self._screen.print_blank()
        self._screen.print_event(f"the queues of c2 had new owners {took_ms:.0f} ms after it was killed")
        self._waiter.pause(self._pause_s)

    def _wait_for_queue_counts(self, shares: tuple[int, ...]) -> None:
        named = "/".join(map(str, shares))
        self._waiter.wait_for_or_fail(f"members own {named}", lambda: self._consumers.queue_counts() == sorted(shares))

    def _a_broker_is_slow(self) -> None:
        slow = self._slow
        before = self._count_brokers(1.0)
        self._cluster.slow_broker(slow, _SLOW_MS)
        self._screen.print_event(f"{slow} becomes slow: it does everything {_SLOW_MS} ms late")
        self._screen.print_blank()
        self._screen.print_broker_shares("before", before)
        self._waiter.wait_for_or_fail("producers avoid the slow broker", lambda: self._traffic_share(slow) == 0)
        self._screen.print_broker_shares("while it is slow", self._count_brokers(1.5))
        for health in self._producers.broker_latency():
            self._screen.print_latency(health)
        self._cluster.slow_broker(slow, 0)
        self._waiter.wait_for_or_fail("producers use the broker fully again", lambda: self._traffic_share(slow) == 1)
        self._screen.print_broker_shares("quick again", self._count_brokers(1.5))
        self._screen.print_blank()

    def _traffic_share(self, broker: str) -> float:
        """Return the share of its traffic that producers give a broker."""
        return next((each.share for each in self._producers.broker_latency() if each.broker == broker), 1.0)

    def _count_brokers(self, seconds: float) -> Counter[str]:
        """Count for a while which brokers messages go to."""
        before = self._delivery_log.sent
        self._waiter.pause(seconds)
        return Counter(self._delivery_log.brokers_since(before))

    def _spark_starts(self) -> None:
        try:
            chosen = self._spark.prepare()
        except SteelyardError as error:
            self._screen.print_event(f"the demo continues without Spark: {error}")
            return
        self._has_spark = True
        self._spark.start()
        self._screen.print_event("Spark starts, to stream into Parquet and into a windowed table")
        self._screen.print_detail(chosen.partition(", workers run")[0])

    def _spark_is_killed(self) -> None:
        if not self._has_spark:
            return
        self._wait_for_spark("Spark writes", self._spark.has_written)
        self._spark.kill()
        last = self._spark.last_published()
        self._screen.print_event(
            f"Spark was up after {self._spark.up_after_s:.1f} s; it is killed (-9) after batch {last}"
        )
        self._spark.start()
        self._screen.print_detail("and restarted, to resume from its checkpoints")

    def _wait_for_spark(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for Spark; raise JobFailed if it exits instead."""
        spark = self._spark
        if not is_so():
            self._screen.print_event(f"waiting until {what}: {spark.activity}")
        self._spark_waiter.wait_for_or_fail(what, lambda: is_so() or bool(spark.failure))
        if spark.failure:
            raise JobFailed(f"the demo ends here: Spark ended ({spark.failure})")

    def _spark_ends(self) -> SparkReport | None:
        if not self._has_spark:
            return None
        spark = self._spark
        self._wait_for_spark("Spark has read to the end", lambda: spark.lake is not None)
        lake, table = spark.lake, spark.table()
        assert lake is not None
        first = spark.archived[0]
        self._screen.print_event(
            f"Spark resumed with batch {first.number}; {lake.messages} rows are in {lake.files} files"
        )
        self._screen.print_detail(f"the fullest queue has {lake.fullest} messages, the emptiest {lake.emptiest}")
        self._screen.print_detail("its windowed table, as it has grown:")
        self._screen.print_blank()
        self._screen.print_window_table(table)
        return SparkReport(lake, windowed_messages=sum(table.values()))

    def _the_proof(self) -> int:
        self._producers.stop()
        if self._has_spark:
            self._spark.finish()
        # On a timeout the report says what is missing.
        self._waiter.wait_for("all messages are handled", self._delivery_log.is_all_handled)
        codes = self._consumers.leave()
        self._consumers.end()
        members = len(self._delivery_log.members())
        self._screen.print_event(f"producers have stopped, members have left; {members} of them handled messages")
        report = DemoReport(self._delivery_log.count(), tuple(codes), self._spark_ends())
        self._screen.print_blank()
        for name, number in report.numbers():
            self._screen.print_number(name, number)
        self._screen.print_blank()
        for line in self._consumers.unexpected_output:
            print(line, file=sys.stderr)
        if broken := list(report.broken_promises()):
            return print_error(f"the proof fails: {'; '.join(broken)}", ExitCode.FAILED)
        if report.spark is None:
            self._screen.print_event("not proven without Spark: that each message is in Parquet exactly once")
        here = Path(".venv/bin/steelyard")  # as `make` leaves it
        command = here if here.exists() else "steelyard"
        self._screen.print_event(f"all of it held. Try it: {command} up --brokers 2")
        return ExitCode.DONE
