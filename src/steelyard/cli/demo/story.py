"""The demo's story, scene by scene. Each waits for what it shows, and fails if that does not come.

Two brokers, producers that write all the time, and a group whose members come, share, and one of which is killed; then
a broker becomes slow, and producers walk around it. Meanwhile Spark archives the topic, is killed as well, and goes on.
At last the proof. Everything is in memory or in a temporary directory, on free ports of the loopback, and gone when it
ends.
"""

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.cli.demo.archivist import Archivist
from steelyard.cli.demo.lake import fill_lake
from steelyard.cli.demo.members import Crew
from steelyard.cli.demo.pictures import Pictures
from steelyard.cli.demo.proof import Proof
from steelyard.cli.demo.writers import Writers
from steelyard.cli.frame.ending import Ending, until_told
from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.cli.frame.screen import refuse, screen, shown
from steelyard.errors import JobFailed, SteelyardError, TimedOut
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster

__all__ = ["main"]

TOPIC, GROUP = "orders", "billing"
QUEUES = 8
"""Of the topic, on each broker."""

_SLOW_MS = 800
_PATIENCE_S = 30.0
_SPARK_PATIENCE_S = 90.0
"""Java and Spark take their time on a busy machine."""
_LOOK_S = 0.01


def main(pause_s: float = 1.5) -> int:
    """Show the demo; ``pause_s`` is how long each picture stands. Nothing is asked and nothing is left behind."""
    return shown(lambda: _run(pause_s))


def _run(pause_s: float) -> int:
    try:
        # Not wherever it happens to be: a process that is just being started would be left behind.
        with until_told() as ending, ExitStack() as stack:
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

        self._ending, self._pause_s = ending, pause_s
        self._console = screen()
        self._console.print("Steelyard: a group that balances itself, while things go wrong\n", style="bold")
        start = time.monotonic()
        self._cluster = cluster = stack.enter_context(Cluster(brokers=2))
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(TOPIC, QUEUES)
        took_ms = (time.monotonic() - start) * 1000
        self._slow = list(cluster.brokers)[-1]
        queues = [Queue(TOPIC, broker, number) for broker in cluster.brokers for number in range(QUEUES)]
        self._page = Pictures(self._console, queues)
        self._page.say(f"two brokers are up after {took_ms:.0f} ms, with {len(queues)} queues for the topic {TOPIC}")
        self._proof = Proof()
        self._crew = Crew(cluster.namesrv, TOPIC, GROUP, self._proof)
        stack.callback(self._crew.end)
        producer = stack.enter_context(Producer(cluster.namesrv, "shop", avoid_slow_brokers=True))
        self._writers = Writers(producer, TOPIC, self._proof)
        stack.callback(self._writers.stop)
        self._directory = Path(stack.enter_context(TemporaryDirectory(prefix="steelyard-demo-")))
        self._archivist = Archivist(cluster.namesrv, TOPIC, self._directory)
        stack.callback(self._archivist.kill)

    def tell(self) -> int:
        """Tell all of it."""
        self._members_come()
        self._one_is_killed()
        self._a_broker_is_slow()
        self._spark_is_killed()
        return self._the_proof()

    def _members_come(self) -> None:
        self._archivist.start()
        self._writers.start()
        self._page.say("Spark starts, to archive the topic as Parquet while all this happens")
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
            self._pause(self._pause_s)

    def _one_is_killed(self) -> None:
        killed_ms = time.time() * 1000
        self._crew.kill("c2")
        self._wait_for_shares((8, 8))
        took_ms = self._crew.settled_ms() - killed_ms
        self._page.row("c2 is killed (-9)", self._crew.owners())
        self._page.blank()
        self._page.say(f"the queues of c2 had new owners {took_ms:.0f} ms after it was killed")
        self._pause(self._pause_s)

    def _a_broker_is_slow(self) -> None:
        slow = self._slow
        before = self._shares(1.0)
        self._cluster.slow_broker(slow, _SLOW_MS)
        self._page.say(f"{slow} becomes slow: it does everything {_SLOW_MS} ms late")
        self._page.blank()
        self._page.shares("before", before)
        self._wait("that producers avoid the slow broker", lambda: self._share(slow) == 0)
        self._page.shares("while it is slow", self._shares(1.5))
        for standing in self._writers.ledger():
            self._page.standing(standing)
        self._cluster.slow_broker(slow, 0)
        self._wait("that producers give the broker its turns again", lambda: self._share(slow) == 1)
        self._page.shares("quick again", self._shares(1.5))
        self._page.blank()

    def _spark_is_killed(self) -> None:
        archivist = self._archivist
        self._wait(
            "that Spark archives",
            lambda: archivist.has_written() or bool(archivist.complaint),
            _SPARK_PATIENCE_S,
        )
        if archivist.complaint:
            raise JobFailed(f"the demo ends here: the archive ended ({archivist.complaint})")
        archivist.kill()
        files = sum(1 for _ in archivist.lake.rglob("*.parquet"))
        self._page.say(f"Spark is killed (-9) in the middle of it all; files so far: {files}")
        self._pause(self._pause_s)

    def _share(self, broker: str) -> float:
        return next((each.share for each in self._writers.ledger() if each.broker == broker), 1.0)

    def _the_proof(self) -> int:
        self._writers.stop()
        self._comes_true(self._proof.is_all_handled)  # if it does not, the proof says what is missing
        codes = self._crew.leave()
        self._crew.end()
        verdict = self._proof.verdict()
        members = len(self._proof.members())
        self._page.say(f"producers have stopped, members have left; {members} of them handled messages")
        self._page.say("Spark is started again, and goes on where its checkpoint says")
        lake = fill_lake(self._cluster.namesrv, TOPIC, self._directory, self._page.detail)
        self._page.lake(lake)
        self._page.blank()
        for name, number in (
            ("sent", verdict.sent),
            ("handled", verdict.handled),
            ("lost", verdict.lost),
            ("handled twice in planned changes", verdict.twice),
            ("handled twice because of the kill", verdict.twice_by_crash),
            ("rows in Parquet", lake.messages),
            ("rows in Parquet that are there twice", lake.messages - lake.places),
        ):
            self._console.print(f"  {name:<34} {number:>6}", style="bold")
        for complaint in self._crew.complaints:
            print(complaint, file=sys.stderr)
        if verdict.holds and not any(codes) and lake.messages == lake.places == verdict.sent:
            self._page.blank()
            self._console.print("Try it: .venv/bin/steelyard up --brokers 2, then send, consume, group watch")
            return Exit.DONE
        return refuse(f"the proof fails: {verdict}, {lake}, exit codes of members {codes}", Exit.FAILED)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        if self._ending.wait(seconds):
            signal.default_int_handler(signal.SIGINT, None)

    def _shares(self, seconds: float) -> Counter[str]:
        """Watch for a while which brokers the messages go to."""
        before = self._proof.sent
        self._pause(seconds)
        return Counter(self._proof.brokers_since(before))

    def _comes_true(self, is_so: Callable[[], bool], patience_s: float | None = None) -> bool:
        end = time.monotonic() + (_PATIENCE_S if patience_s is None else patience_s)
        while not is_so():
            if time.monotonic() >= end:
                return False
            self._pause(_LOOK_S)
        return True

    def _wait(self, what: str, is_so: Callable[[], bool], patience_s: float | None = None) -> None:
        if not self._comes_true(is_so, patience_s):
            said = "; ".join(self._crew.complaints[-3:])
            raise TimedOut(f"the demo ends here: {what} did not come true{f' ({said})' if said else ''}")

    def _wait_for_shares(self, shares: tuple[int, ...]) -> None:
        self._wait(f"that members own {'/'.join(map(str, shares))}", lambda: self._crew.shares() == sorted(shares))
