"""Which queue a message goes to: turns over a publish list, around brokers that failed or are avoided.

The rule: a counter starts where it is told to (at random, so that a thousand producers do not begin with the same
queue) and moves past each queue it looks at. Nobody resets it and it never wraps, so k times N sends put exactly k on
each of N queues. A queue is passed over while its broker failed in this very send, is avoided by the ledger, or is
coming back and it is not its turn yet. If nothing is left, the least bad broker is taken, and without a ledger the next
queue: a send is never refused because of a guess.

Left out: which queue a *key* goes to (selectors.py), and how often to try (attempts.py). Chance is the caller's.
"""

from collections.abc import Collection, Sequence

from steelyard.balance.ledger import Ledger
from steelyard.errors import NoRoute
from steelyard.model import PublishList, Queue

__all__ = ["Picker"]


class Picker:
    """Turns over the queues of one topic; one for all senders of a producer.

    >>> queues = tuple(Queue("orders", broker, number) for broker in "ab" for number in range(2))
    >>> picker = Picker(PublishList("orders", queues), start=3)
    >>> [str(picker.pick()) for _ in range(3)]
    ['orders@b:1', 'orders@a:0', 'orders@a:1']
    >>> str(picker.pick(failed={"b"}))
    'orders@a:0'
    """

    __slots__ = ("_by_broker", "_queues", "_run_ends", "_turn", "_worst_turn", "ledger", "topic")

    def __init__(self, listed: PublishList, start: int, ledger: Ledger | None = None) -> None:
        self.ledger = ledger
        """What is known of the brokers; None, the default, means plain rotation."""
        self._turn = start
        self._worst_turn = start
        self.use(listed)

    def use(self, listed: PublishList) -> None:
        """Take a new list, as a whole: the route has changed. The counter goes on."""
        if not listed:
            raise NoRoute(f"topic {listed.topic!r} has no queue that takes messages")
        self.topic = listed.topic
        self._queues = listed.queues
        self._run_ends = _run_ends(listed.queues)
        self._by_broker: dict[str, list[Queue]] = {}
        for queue in listed.queues:
            self._by_broker.setdefault(queue.broker, []).append(queue)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """The queues to choose from."""
        return self._queues

    @property
    def brokers(self) -> Collection[str]:
        """The brokers that have these queues, in order."""
        return self._by_broker.keys()

    def pick(self, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        """Choose the next queue; ``failed`` are all brokers that failed in this send."""
        ledger = self.ledger
        if not failed and (ledger is None or ledger.is_calm(now_ms)):
            return self._next()
        return self._first_open(now_ms, failed) or self._least_bad(now_ms, failed)

    def _next(self) -> Queue:
        turn = self._turn
        self._turn = turn + 1
        return self._queues[turn % len(self._queues)]

    def _first_open(self, now_ms: int, failed: Collection[str]) -> Queue | None:
        """Walk once around, and take the first queue that nothing speaks against."""
        queues, ledger = self._queues, self.ledger
        turn, size = self._turn, len(self._queues)
        end = turn + size
        while turn < end:
            at = turn % size
            queue = queues[at]
            if queue.broker in failed or (ledger is not None and ledger.avoids(queue.broker, now_ms)):
                # All of this broker's queues are passed over at once: a thousand of them cost no more than one.
                turn += self._run_ends[at] - at
            elif ledger is None or ledger.admits(queue.broker, now_ms):
                self._turn = turn + 1
                return queue
            else:
                turn += 1
        return None

    def _least_bad(self, now_ms: int, failed: Collection[str]) -> Queue:
        if self.ledger is None:
            return self._next()
        left = [broker for broker in self._by_broker if broker not in failed] or list(self._by_broker)
        self._worst_turn += 1
        broker = self.ledger.least_bad(left, self._worst_turn, now_ms)
        mine = self._by_broker[broker]
        turn = self._turn
        self._turn = turn + 1
        return mine[turn % len(mine)]


def _run_ends(queues: Sequence[Queue]) -> list[int]:
    """Return for each place where the run of queues of the same broker ends.

    >>> _run_ends([Queue("t", broker, 0) for broker in "aab"])
    [2, 2, 3]
    """
    ends = [len(queues)] * len(queues)
    for at in range(len(queues) - 2, -1, -1):
        ends[at] = ends[at + 1] if queues[at].broker == queues[at + 1].broker else at + 1
    return ends
