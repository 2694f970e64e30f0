"""What was pulled and waits to be polled, queue by queue: in order within a queue, in turn over all of them.

A message is *waiting* until a poll returns it, then it is *polled* until somebody says that it is done. Both are parts
of one order, so everything below the first message that is not done is done. A queue that starts anew (it moved, or was
sought in) has a new generation, and with it a new shelf: what the old one held is for its owner to give back.

Pure: where messages come from and what becomes of those that are done is not known here.
"""

from collections import deque
from collections.abc import Callable, Sequence

from steelyard.client.consuming.received import Received
from steelyard.model import Queue

__all__ = ["Shelf", "Shelves"]

_TURN = 32
"""So many messages a queue gives in its turn: what one pull brings."""


class Shelf:
    """The messages of one queue in one generation."""

    __slots__ = ("_at", "_batches", "body_bytes", "count", "generation", "held", "is_in_line", "polled", "queue")

    def __init__(self, queue: Queue, generation: int) -> None:
        self.queue, self.generation = queue, generation
        self.count = 0
        """How many are waiting."""
        self.body_bytes = 0
        """What those take."""
        self.polled: list[int] = []
        """The offsets that the user has and nobody called done, in order."""
        self.held: set[int] = set()
        """Offsets that nobody polls, since they cannot be read, and that are not done."""
        self.is_in_line = False
        self._batches: deque[tuple[Sequence[int], Sequence[Received]]] = deque()
        self._at = 0

    def put(self, offsets: Sequence[int], messages: Sequence[Received]) -> None:
        """Take messages in, behind all that are here."""
        self._batches.append((offsets, messages))
        self.count += len(offsets)
        self.body_bytes += sum(len(message.body) for message in messages)

    def give(self, most: int) -> list[Received]:
        """Return the next messages: they are polled now."""
        given: list[Received] = []
        while self._batches and most > 0:
            offsets, messages = self._batches[0]
            end = self._at + most
            part = messages[self._at : end]
            self.polled += offsets[self._at : end]
            given += part
            most -= len(part)
            if end < len(offsets):
                self._at = end
            else:
                self._batches.popleft()
                self._at = 0
        self.count -= len(given)
        self.body_bytes -= sum(len(message.body) for message in given)
        return given

    def take_back(self, messages: Sequence[Received]) -> None:
        """Let messages that were given last wait again, before all others."""
        offsets = [message.offset for message in messages]
        if self.polled[-len(offsets) :] != offsets:
            return  # they are done, or the queue began anew
        del self.polled[-len(offsets) :]
        if self._at:
            front_offsets, front_messages = self._batches.popleft()
            self._batches.appendleft((front_offsets[self._at :], front_messages[self._at :]))
            self._at = 0
        self._batches.appendleft((offsets, messages))
        self.count += len(offsets)
        self.body_bytes += sum(len(message.body) for message in messages)

    def first(self) -> int | None:
        """Return the offset of the message that is polled next, if one is waiting."""
        return self._batches[0][0][self._at] if self._batches else None

    def low(self) -> int | None:
        """Return the first offset that is not done, if there is one here."""
        first = self.polled[0] if self.polled else self.first()
        return min(self.held if first is None else (*self.held, first)) if self.held else first

    def withdraw(self, offset: int) -> None:
        """Take a message out of what was polled: nobody was given it."""
        if offset in self.polled:
            self.polled.remove(offset)

    def done(self, below: int | None = None) -> list[int]:
        """Call polled messages done, all or those below an offset; return which."""
        if below is None:
            finished, self.polled = self.polled, []
        else:
            finished = [offset for offset in self.polled if offset < below]
            self.polled = self.polled[len(finished) :]
        return finished

    def clear(self) -> list[int]:
        """Forget what is waiting; return the offsets."""
        left = [offset for offsets, _ in self._batches for offset in offsets][self._at :]
        self._batches.clear()
        self._at = self.count = self.body_bytes = 0
        return left


class Shelves:
    """All shelves of one puller, and whose turn it is."""

    def __init__(self) -> None:
        self.paused: set[Queue] = set()
        """Queues that give nothing; what is there stays."""
        self._shelves: dict[Queue, Shelf] = {}
        self._line: deque[Shelf] = deque()

    def find(self, queue: Queue) -> Shelf | None:
        """Return the shelf of a queue, if it has one."""
        return self._shelves.get(queue)

    def all(self) -> list[Shelf]:
        """Return every shelf."""
        return list(self._shelves.values())

    def begin(self, queue: Queue, generation: int) -> Shelf:
        """Give a queue an empty shelf; one that it had is dropped."""
        self.drop(queue)
        shelf = self._shelves[queue] = Shelf(queue, generation)
        return shelf

    def drop(self, queue: Queue) -> Shelf | None:
        """Forget the shelf of a queue, and return it."""
        shelf = self._shelves.pop(queue, None)
        if shelf is not None and shelf.is_in_line:
            self._line.remove(shelf)
            shelf.is_in_line = False
        return shelf

    def put(self, shelf: Shelf, offsets: Sequence[int], messages: Sequence[Received]) -> None:
        """Put messages on a shelf, which then has its turn."""
        if not offsets:
            return
        shelf.put(offsets, messages)
        if not shelf.is_in_line:
            shelf.is_in_line = True
            self._line.append(shelf)

    def take(self, most: int, may_give: Callable[[Shelf], bool]) -> list[Received]:
        """Return up to ``most`` messages of those shelves that may give, a few of each in turn."""
        taken: list[Received] = []
        line, passed = self._line, 0
        while passed < len(line) and len(taken) < most:
            shelf = line.popleft()
            if not shelf.count:
                shelf.is_in_line = False
                continue
            if shelf.queue in self.paused or not may_give(shelf):
                passed += 1
            else:
                taken += shelf.give(min(_TURN, most - len(taken)))
                passed = 0
            line.append(shelf)
        return taken

    def take_back(self, messages: Sequence[Received]) -> None:
        """Let the messages of the last poll wait again: whoever polled never saw them."""
        by_queue: dict[Queue, list[Received]] = {}
        for message in messages:
            by_queue.setdefault(message.queue, []).append(message)
        for queue, theirs in by_queue.items():
            shelf = self._shelves.get(queue)
            if shelf is not None:
                shelf.take_back(theirs)
                if not shelf.is_in_line:
                    shelf.is_in_line = True
                    self._line.append(shelf)
