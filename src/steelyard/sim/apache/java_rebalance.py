"""How Java's members share queues: each by itself, from one list of ids, without a word to the others.

For each topic one broker is asked at random who is in the group (no list: nothing is done, and it counts as balanced).
The strategy is applied to both sorted lists; whoever does not find its own id drops everything. What is not its own any
more is dropped at once, whatever is being handled; what is new is taken at once, whoever may still be at it. In order,
a lock comes first, and a queue is given up only once the user's code is out of it, or later.
"""

from collections.abc import Sequence

from steelyard.errors import AllocationError
from steelyard.model import Queue, names_in_order
from steelyard.sim.apache.java_beats import beat_all
from steelyard.sim.apache.java_calls import Ask, Script, Sleep
from steelyard.sim.apache.java_locks import lock_one, unlock
from steelyard.sim.apache.java_queue import ProcessQueue
from steelyard.sim.apache.java_routes import look_up
from steelyard.sim.apache.java_start import start_of
from steelyard.sim.apache.java_state import JavaState
from steelyard.sim.apache.release import Release
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerIds
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import Group

__all__ = ["Round"]

_LISTENER_STEP_MS = 50
_LISTENER_MS = {Release.V4: 1_000, Release.V5: 500}
"""How long a thread waits for the user's code to be out of a queue."""

_LATE_UNLOCK_MS = 20_000
"""When 4.9 unlocks a queue that has messages left, and how old a lock is that release 5 gives up by force."""


class Round:
    """One run over all topics. ``taken`` are new queues, to be pulled from; the others say what was found."""

    def __init__(self, state: JavaState) -> None:
        self._state = state
        self.taken: list[ProcessQueue] = []
        self.planned: dict[str, tuple[Queue, ...]] = {}
        """What is this member's by plan, of each topic that could be planned."""
        self.members: tuple[str, ...] = ()
        self.is_balanced = True
        self.is_lock_missing = False

    def run(self) -> Script[None]:
        """Go through all topics."""
        for topic in self._state.options.all_topics:
            yield from self._share(topic)

    def _share(self, topic: str) -> Script[None]:
        state = self._state
        route = state.routes.get(topic)
        if route is None:
            yield from look_up(state, topic)  # for the next round: Java looks at the route before it looks for it
            return
        queues = route.readable()
        if state.is_broadcasting:
            mine: Sequence[Queue] = queues
        else:
            ids = yield from self._ids(topic)
            if ids is None:
                return
            self.members = tuple(ids)
            try:
                mine = state.options.strategy(state.options.group, state.options.id, queues, ids)
            except AllocationError:
                self.is_balanced = False
                return
        self.planned[topic] = tuple(mine)
        if (yield from self._drop(topic, mine)) | (yield from self._take(mine)):
            state.versions[topic] = state.now_ms()
            yield from beat_all(state)
        if {queue for queue in state.queues if queue.topic == topic} != set(mine):
            self.is_balanced = False

    def _ids(self, topic: str) -> Script[list[str] | None]:
        """Ask one broker, any, who is in the group."""
        state = self._state
        addresses = [place.master for place in state.routes[topic].brokers if place.master is not None]
        if not addresses:
            return None
        address = state.process.world.random.choice(addresses)
        command = state.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, Group(state.options.group))
        answer = yield Ask(address, command)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return None
        return names_in_order(decode_body(ConsumerIds, answer.body).ids)

    def _drop(self, topic: str, mine: Sequence[Queue]) -> Script[bool]:
        state, changed = self._state, False
        for queue, known in [each for each in state.queues.items() if each[0].topic == topic]:
            if queue not in mine or known.is_stuck(state.now_ms()):
                known.is_dropped = True
                if (yield from self._give_up(known)):
                    state.queues.pop(queue, None)
                    changed = True
        return changed

    def _give_up(self, known: ProcessQueue) -> Script[bool]:
        """Commit and forget a queue; say whether that could be done now."""
        state, queue = self._state, known.queue
        is_old = state.release is Release.V4
        state.persist(queue)
        if is_old or not state.is_orderly:
            state.offsets.pop(queue, None)
        if not state.is_orderly:
            return True
        is_forced = not is_old and state.now_ms() > known.locked_ms + _LATE_UNLOCK_MS
        if not is_forced and not (yield from self._wait_for_listener(known)):
            known.unlock_tries += 1
            return False
        if is_old and known.messages:
            state.process.after(_LATE_UNLOCK_MS, lambda: unlock(state, queue))
            return True
        state.persist(queue)
        state.offsets.pop(queue, None)
        known.is_locked = is_old and known.is_locked
        unlock(state, queue)
        return True

    def _wait_for_listener(self, known: ProcessQueue) -> Script[bool]:
        """Wait until the user's code is out of a queue, not for long."""
        waited_ms, most_ms = 0, _LISTENER_MS[self._state.release]
        while known.is_in_listener and waited_ms < most_ms:
            yield Sleep(_LISTENER_STEP_MS)
            waited_ms += _LISTENER_STEP_MS
        return not known.is_in_listener

    def _take(self, mine: Sequence[Queue]) -> Script[bool]:
        state, changed = self._state, False
        for queue in mine:
            if queue in state.queues:
                continue
            if state.is_orderly and not (yield from lock_one(state, queue)):
                self.is_lock_missing = True
                continue
            state.offsets.pop(queue, None)
            start = yield from start_of(state, queue)
            if start is None:
                continue
            known = state.queues[queue] = ProcessQueue(queue, start, state.now_ms())
            if state.is_orderly:
                known.is_locked, known.locked_ms = True, state.now_ms()
            self.taken.append(known)
            changed = True
        return changed
