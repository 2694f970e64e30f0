"""How Java's members handle messages: by a pool of threads, at random or queue by queue.

What they do with a result is Java's: that of a dropped queue is thrown away, so that its messages are handled again
elsewhere. A failure is sent back (36); if that fails it is sent anew to the topic of retries, where release 5 of the
broker may take it for one of an orderly group; and if that fails too it is tried again here.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial

from steelyard.model import StoredMessage
from steelyard.sim.apache.java_calls import Ask, Script
from steelyard.sim.apache.java_locks import lock_one
from steelyard.sim.apache.java_queue import ProcessQueue
from steelyard.sim.apache.java_state import JavaState, UserCode
from steelyard.sim.apache.release import Release
from steelyard.sim.facts import Ended, Started
from steelyard.wire.codes import STORED, RequestCode, ResponseCode
from steelyard.wire.headers.send import SendBack, SendShort
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import DELAY_LEVEL, RETRY_TOPIC

__all__ = ["Concurrent", "Handling", "Orderly"]

_SEND_BACK_MS = 5_000
_AGAIN_MS = 5_000
_SUSPEND_MS = 1_000
_LOCK_SOON_MS, _LOCK_LATER_MS = 10, 3_000
_FIRST_LEVEL = 3
_MOST_RETRIES = 16


class Handling(ABC):
    """A pool of threads for the user's code. What a thread does, and with which result, is said by the two kinds."""

    def __init__(self, state: JavaState, work: UserCode) -> None:
        self.state, self._work = state, work
        self._free = state.options.handlers
        self._waiting: deque[tuple[ProcessQueue, StoredMessage | None]] = deque()

    @abstractmethod
    def submit(self, known: ProcessQueue, found: Sequence[StoredMessage]) -> None:
        """Take messages that came."""

    def queue_up(self, known: ProcessQueue, message: StoredMessage | None) -> None:
        """Let something wait for a thread."""
        self._waiting.append((known, message))
        self._go_on()

    def _go_on(self) -> None:
        while self._free and self._waiting and not self.state.is_stopped:
            self._free -= 1
            self.begin(*self._waiting.popleft())

    def free(self) -> None:
        """Give a thread back."""
        self._free += 1
        self._go_on()

    @abstractmethod
    def begin(self, known: ProcessQueue, message: StoredMessage | None) -> None:
        """Do something with a thread, and give it back at the end."""

    @abstractmethod
    def ended(self, known: ProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Do something with the result of the user's code."""

    def run_user_code(self, known: ProcessQueue, message: StoredMessage) -> None:
        """Give a message to the user's code; `ended` follows."""
        options, world = self.state.options, self.state.process.world
        attempt = known.tries.get(message.offset, 0)
        known.tries[message.offset] = attempt + 1
        uid = message.body.decode(errors="replace")
        world.tell(
            Started(
                at_ms=world.now_ms(),
                member=options.id,
                group=options.group,
                queue=known.queue,
                offset=message.offset,
                uid=uid,
                attempt=attempt,
                reconsume_times=message.reconsume_times,
            )
        )
        took_ms, ok = self._work(message, attempt)
        self.state.process.after(took_ms, partial(self._returned, known, message, uid, ok))

    def _returned(self, known: ProcessQueue, message: StoredMessage, uid: str, ok: bool) -> None:
        options, world = self.state.options, self.state.process.world
        known.handled_ms = self.state.now_ms()
        world.tell(
            Ended(
                at_ms=world.now_ms(),
                member=options.id,
                group=options.group,
                queue=known.queue,
                offset=message.offset,
                uid=uid,
                ok=ok,
            )
        )
        if not self.state.is_stopped:
            self.ended(known, message, ok=ok)

    def send_anew(self, message: StoredMessage, times: int, most: int) -> Script[bool]:
        """Send a failed message to the topic of retries as if it were a new one; say whether it is stored.

        ``times`` is how often it will have been tried: what the broker compares with ``most``.
        """
        state, topic = self.state, self.state.options.retry_topic
        route = state.routes.get(topic)
        queues = [] if route is None else route.publish_list().queues
        if not queues:
            return False
        queue = state.process.world.random.choice(queues)
        properties = {RETRY_TOPIC: message.topic} | dict(message.properties)
        properties[DELAY_LEVEL] = str(_FIRST_LEVEL + message.reconsume_times)
        header = SendShort(
            "CLIENT_INNER_PRODUCER",
            topic,
            "TBW102",
            4,
            queue.queue_id,
            0,
            message.born_ms,
            message.flag,
            encode_properties(properties).decode(),
            times,
            False,
            most,
        )
        address = state.addresses.get(queue.broker)
        if address is None:
            return False
        answer = yield Ask(address, state.request(RequestCode.SEND_MESSAGE_V2, header, message.body))
        return answer is not None and answer.code in STORED


class Concurrent(Handling):
    """Any message, any thread."""

    def submit(self, known: ProcessQueue, found: Sequence[StoredMessage]) -> None:
        """Take messages that came."""
        for message in found:
            self.queue_up(known, message)

    def begin(self, known: ProcessQueue, message: StoredMessage | None) -> None:
        """Handle a message, unless its queue was dropped meanwhile."""
        if known.is_dropped or message is None:
            self.free()
        else:
            self.run_user_code(known, message)

    def ended(self, known: ProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Note what is done, send back what failed; forget it if the queue was dropped."""
        if known.is_dropped:
            self.free()
        elif ok or self.state.is_broadcasting:
            self._done(known, message)
        else:
            self.state.calls.run(self._send_back(message), partial(self._sent_back, known, message))

    def _send_back(self, message: StoredMessage) -> Script[bool]:
        state = self.state
        header = SendBack(
            message.position,
            state.options.group,
            0,
            message.offset_id,
            message.topic,
            max_reconsume_times=_MOST_RETRIES,
        )
        address = state.addresses.get(message.queue.broker)
        if address is not None:
            command = state.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            answer = yield Ask(address, command, _SEND_BACK_MS)
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                return True
        return (yield from self.send_anew(message, message.reconsume_times + 1, _MOST_RETRIES))

    def _sent_back(self, known: ProcessQueue, message: StoredMessage, is_taken: bool) -> None:
        if is_taken:
            self._done(known, message)
        else:
            self.state.process.after(_AGAIN_MS, partial(self.queue_up, known, message))
            self.free()

    def _done(self, known: ProcessQueue, message: StoredMessage) -> None:
        offset = known.done(message.offset)
        if not known.is_dropped:
            self.state.move(known.queue, offset)
        self.free()


class Orderly(Handling):
    """One thread for each queue, as long as the lock is young."""

    def submit(self, known: ProcessQueue, found: Sequence[StoredMessage]) -> None:
        """Take messages that came."""
        if found:
            self._wake(known)

    def _wake(self, known: ProcessQueue) -> None:
        if not known.is_busy:
            known.is_busy = True
            self.queue_up(known, None)

    def begin(self, known: ProcessQueue, message: StoredMessage | None) -> None:
        """Handle the next message of a queue, if the lock allows it."""
        del message  # which one is next is known to the queue
        if known.is_dropped:
            self._rest(known)
        elif not known.is_locked or known.is_lock_old(self.state.now_ms()):
            self._rest(known)
            self.state.process.after(_LOCK_SOON_MS, partial(self._lock_first, known))
        else:
            taken = known.take()
            if taken is None:
                self._rest(known)
            else:
                known.is_in_listener = True
                self.run_user_code(known, taken)

    def _rest(self, known: ProcessQueue) -> None:
        known.is_busy = False
        self.free()

    def _lock_first(self, known: ProcessQueue) -> None:
        if not known.is_dropped:
            self.state.calls.run(lock_one(self.state, known.queue), partial(self._locked, known))

    def _locked(self, known: ProcessQueue, is_locked: bool) -> None:
        self.state.process.after(_LOCK_SOON_MS if is_locked else _LOCK_LATER_MS, partial(self._wake, known))

    def ended(self, known: ProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Go on with the next, or rest for a while and try the same again."""
        known.is_in_listener = False
        if ok:
            self._commit(known)
            return
        most, tries = self.state.options.most_tries, known.tries[message.offset]
        if most >= 0 and tries > most:
            # 4.9 does not count the last one, and 4.9's broker gives up one earlier.
            times = tries - 1 if self.state.release is Release.V4 else tries
            self.state.calls.run(self.send_anew(message, times, most), partial(self._given_up, known))
        else:
            self._again(known)

    def _given_up(self, known: ProcessQueue, is_stored: bool) -> None:
        if is_stored:
            self._commit(known)
        else:
            self._again(known)

    def _commit(self, known: ProcessQueue) -> None:
        offset = known.commit()
        if not known.is_dropped:
            self.state.move(known.queue, offset)
        self.begin(known, None)

    def _again(self, known: ProcessQueue) -> None:
        known.put_back()
        self._rest(known)
        self.state.process.after(_SUSPEND_MS, partial(self._wake, known))
