"""Our client beside Java's, Node's and the one in C++: all against one and the same broker of Apache's, in turns.

What is timed is what the broker has stored, by its own answer, or what a handler was handed: the same count for all,
once each is warm. A run counts only if everything arrived, nothing failed and nothing came twice. The figure is the
median of the rounds; beside it the best, and what the client's own process took of a processor for a message.
Takes less than six minutes and 6 GiB of the folder for temporary files; `--quick` shows that it works.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median

from tests.interop.talk import commit, create_group

from bench.brokers import APACHE, Broker, running, stored
from bench.client_load import BATCH, IN_FLIGHT
from bench.java_load import BINARY, NotReady, batch_producer, check_java, consumer, producer
from bench.load import Load, running_python
from bench.rivals import CPP, NODE, cpp_consumer, node_producer, prepare_rivals
from bench.table import Row
from bench.watch import Measured, Progress, Stalled, watch

__all__ = ["run"]

JAVA = "Java"
_QUEUES = 8
_ROUNDS = 2
# What is sent and not timed at the end: whoever has many on their way does not end all at once.
_TAIL = 0.05
_FILLED = "batches"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many messages are timed in each run, and how many a JVM sends before that."""

    one: int = 25_000
    one_warm: int = 25_000
    many: int = 200_000
    many_warm: int = 200_000
    batches: int = 600_000
    batches_warm: int = 400_000
    drained: int = 1_000_000


_QUICK = Sizes(2_000, 2_000, 20_000, 10_000, 100_000, 50_000, 200_000)


class Memory:
    """What a process holds while it gets on with its messages."""

    def __init__(self, load: Load, ask: Callable[[], int], messages: int) -> None:
        self._load, self._ask, self._messages = load, ask, messages
        self.early_bytes, self.late_bytes = 0, 0

    def ask(self) -> int:
        """Return how far things are; the process is looked at by the way."""
        done, held = self._ask(), self._load.resident_bytes()
        if 0 < done <= self._messages // 10 or not self.early_bytes:
            self.early_bytes = max(self.early_bytes, held)
        elif done >= self._messages * 9 // 10:
            self.late_bytes = max(self.late_bytes, held)
        return done
