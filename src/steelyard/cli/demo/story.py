"""The demo's story, scene by scene. Each waits for what it shows, and fails if that does not come.

Two brokers, producers that write all the time, and a group whose members come, share, and one of which is killed; Spark
reads along, is killed as well, and goes on; meanwhile a broker becomes slow, and producers walk around it. At last the
proof. Everything is in memory or in a temporary directory, on free ports of the loopback, and gone when it ends.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.cli.demo.archivist import Archivist
from steelyard.cli.demo.members import Crew
from steelyard.cli.demo.outcome import Outcome, SparkOutcome
from steelyard.cli.demo.pictures import Pictures
from steelyard.cli.demo.proof import Proof
from steelyard.cli.demo.waiting import Patience, told_to_end
from steelyard.cli.demo.writers import Writers
from steelyard.cli.frame.ending import Ending
from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.cli.frame.screen import refuse, screen, shown
from steelyard.errors import JobFailed, SteelyardError
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster

__all__ = ["main"]

TOPIC, GROUP = "orders", "billing"
QUEUES = 8
"""Of the topic, on each broker."""

_SLOW_MS = 800
_PATIENCE_S = 30.0
_SPARK_PATIENCE_S = 150.0
"""Java and Spark take their time on a busy machine, and the first time Python compiles what their workers import."""


def main(pause_s: float = 1.5) -> int:
    """Show the demo; ``pause_s`` is how long each picture stands. Nothing is asked and nothing is left behind."""
    return shown(lambda: _run(pause_s))


def _run(pause_s: float) -> int:
    try:
        with told_to_end() as ending, ExitStack() as stack:
            return _Story(stack, ending, pause_s).tell()
    except SteelyardError as error:
        return refuse(str(error), exit_for(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


class _Story:
    def __init__(self, stack: ExitStack, ending: Ending, pause_s: float) -> None:
        # Here and not above, so that nobody else waits for what a client needs.
        from steelyard.client.blocking.admin import Admin
        from steelyard.client.blocking.producer import Producer

        self._pause_s = pause_s
        console = screen()
        console.print("Steelyard: a group that balances itself, while things go wrong\n", style="bold")
        start = time.monotonic()
        self._cluster = cluster = stack.enter_context(Cluster(brokers=2))
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(TOPIC, QUEUES)
        took_ms = (time.monotonic() - start) * 1000
        self._slow = list(cluster.brokers)[-1]
        queues = [Queue(TOPIC, broker, number) for broker in cluster.brokers for number in range(QUEUES)]
        self._page = Pictures(console, queues)
        self._page.say(f"two brokers are up after {took_ms:.0f} ms, with {len(queues)} queues for the topic {TOPIC}")
        self._show_in_browsers(stack)
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-demo-")))
        self._proof = Proof()
        self._crew = Crew(cluster.namesrv, TOPIC, GROUP, self._proof)
        stack.callback(self._crew.end)
        producer = stack.enter_context(Producer(cluster.namesrv, "shop", avoid_slow_brokers=True))
        self._writers = Writers(producer, TOPIC, self._proof)
        stack.callback(self._writers.stop)
        self._spark = Archivist(cluster.namesrv, TOPIC, directory, self._page.begin_ms)
        stack.callback(self._spark.kill)
        tell = self._page.detail
        self._patience = Patience(ending, _PATIENCE_S, lambda: "; ".join(self._crew.complaints[-3:]), tell)
        self._patience_with_spark = Patience(
            ending, _SPARK_PATIENCE_S, lambda: self._spark.complaint, tell, lambda: self._spark.doing
        )
        self._has_spark = False

    def _show_in_browsers(self, stack: ExitStack) -> None:
        """Serve the page while the story is told; where it cannot be served the story is the same."""
        from steelyard.dashboard.page import Page, can_be_served

        if can_be_served():
            page = stack.enter_context(Page(self._cluster.namesrv))
            self._page.say(f"see it in a browser, while this runs: {page.link(f'groups/{GROUP}')}")

    def tell(self) -> int:
        """Tell all of it."""
        self._spark_starts()
        self._members_come()
        self._one_is_killed()
        self._spark_is_killed()
        self._a_broker_is_slow()
        return self._the_proof()

    # -- the group ----------------------------------------------------------------------------------------------------

    def _members_come(self) -> None:
        self._writers.start()
        self._page.say("producers write; members come one after the other, and share the queues")
        self._page.blank()
        self._page.head()
        for what, name, shares in (
            ("c1 is alone", "c1", (16,)),
            ("c2 joins", "c2", (8, 8)),
            ("c3 joins", "c3", (6, 5, 5)),
        ):
            self._crew.start(name)
            self._wait_for_shares(shares)
            self._page.row(what, self._crew.owners())
            self._patience.pause(self._pause_s)

    def _one_is_killed(self) -> None:
        killed_ms = time.time() * 1000
        self._crew.kill("c2")
        self._wait_for_shares((8, 8))
        took_ms = self._crew.settled_ms() - killed_ms
        self._page.row("c2 is killed (-9)", self._crew.owners())
        self._page.blank()
        self._page.say(f"the queues of c2 had new owners {took_ms:.0f} ms after it was killed")
        self._patience.pause(self._pause_s)

    def _wait_for_shares(self, shares: tuple[int, ...]) -> None:
        named = "/".join(map(str, shares))
        self._patience.until(f"members own {named}", lambda: self._crew.shares() == sorted(shares))

    # -- a broker -----------------------------------------------------------------------------------------------------

    def _a_broker_is_slow(self) -> None:
        slow = self._slow
        before = self._shares(1.0)
        self._cluster.slow_broker(slow, _SLOW_MS)
        self._page.say(f"{slow} becomes slow: it does everything {_SLOW_MS} ms late")
        self._page.blank()
        self._page.shares("before", before)
        self._patience.until("producers avoid the slow broker", lambda: self._turns(slow) == 0)
        self._page.shares("while it is slow", self._shares(1.5))
        for standing in self._writers.ledger():
            self._page.standing(standing)
        self._cluster.slow_broker(slow, 0)
        self._patience.until("producers give the broker its turns again", lambda: self._turns(slow) == 1)
        self._page.shares("quick again", self._shares(1.5))
        self._page.blank()

    def _turns(self, broker: str) -> float:
        """Return which part of its turns producers give a broker."""
        return next((each.share for each in self._writers.ledger() if each.broker == broker), 1.0)

    def _shares(self, seconds: float) -> Counter[str]:
        """Watch for a while which brokers the messages go to."""
        before = self._proof.sent
        self._patience.pause(seconds)
        return Counter(self._proof.brokers_since(before))

    # -- Spark --------------------------------------------------------------------------------------------------------

    def _spark_starts(self) -> None:
        try:
            chosen = self._spark.prepare()
        except SteelyardError as error:
            self._page.say(f"the story goes on without Spark: {error}")
            return
        self._has_spark = True
        self._spark.start()
        self._page.say("Spark starts, to read along into Parquet and into a windowed table")
        self._page.detail(chosen.partition(", workers run")[0])

    def _spark_is_killed(self) -> None:
        if not self._has_spark:
            return
        self._spark_goes_on_until("Spark writes", self._spark.has_written)
        self._spark.kill()
        last = self._spark.last_committed()
        self._page.say(f"Spark was up after {self._spark.up_after_s:.1f} s; it is killed (-9) after batch {last}")
        self._spark.start()
        self._page.detail("and started again, to go on where its checkpoints say")

    def _spark_goes_on_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for something of Spark; raises JobFailed if it has ended without."""
        spark = self._spark
        if not is_so():
            self._page.say(f"waiting until {what}: {spark.doing}")
        self._patience_with_spark.until(what, lambda: is_so() or bool(spark.complaint))
        if spark.complaint:
            raise JobFailed(f"the demo ends here: Spark ended ({spark.complaint})")

    def _spark_ends(self) -> SparkOutcome | None:
        if not self._has_spark:
            return None
        spark = self._spark
        self._spark_goes_on_until("Spark has read to the end", lambda: spark.lake is not None)
        lake, table = spark.lake, spark.table()
        assert lake is not None
        first = spark.archived[0]
        self._page.say(f"Spark went on with batch {first.number}; {lake.messages} rows are in {lake.files} files")
        self._page.detail(f"the fullest queue has {lake.fullest} messages, the emptiest {lake.emptiest}")
        self._page.detail("its windowed table, as it has grown:")
        self._page.blank()
        self._page.table(table)
        return SparkOutcome(lake, tabulated=sum(table.values()))

    # -- the end ------------------------------------------------------------------------------------------------------

    def _the_proof(self) -> int:
        self._writers.stop()
        if self._has_spark:
            self._spark.finish()
        # If it does not come true, the proof says what is missing.
        self._patience.comes_true("all messages are handled", self._proof.is_all_handled)
        codes = self._crew.leave()
        self._crew.end()
        members = len(self._proof.members())
        self._page.say(f"producers have stopped, members have left; {members} of them handled messages")
        outcome = Outcome(self._proof.verdict(), tuple(codes), self._spark_ends())
        self._page.blank()
        for name, number in outcome.numbers():
            self._page.number(name, number)
        self._page.blank()
        for complaint in self._crew.complaints:
            print(complaint, file=sys.stderr)
        if shortcomings := list(outcome.shortcomings()):
            return refuse(f"the proof fails: {'; '.join(shortcomings)}", Exit.FAILED)
        if outcome.spark is None:
            self._page.say("not proven without Spark: that each message is in Parquet, and once")
        here = Path(".venv/bin/steelyard")  # as `make` leaves it
        command = here if here.exists() else "steelyard"
        self._page.say(f"all of it held. Try it: {command} up --brokers 2")
        return Exit.DONE
