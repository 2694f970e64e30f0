"""How Java's members pull and handle messages.

Each queue has one pull request at a time, as long as it is not dropped. A pool of threads handles messages,
concurrently or queue by queue. The result for a dropped queue is ignored, so that its messages are handled again
elsewhere. A failed message is sent back (36); if that fails it is sent to the retry topic as a new message, where
release 5 of the broker may take it for one of an orderly group; if that fails too it is tried again here.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from simulator.apache.java_client import (
    JavaProcessQueue,
    JavaRequest,
    JavaState,
    JavaThread,
    fetch_start_offset,
    lock_queue,
)
from simulator.apache.release import ApacheRelease
from simulator.facts import HandlerEnded, HandlerStarted
from simulator.scenario import UserHandler
from steelyard.model import StoredMessage
from steelyard.wire.codes import STORED_CODES, RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.headers.send import SendMessageBack, SendMessageV2
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import DELAY_LEVEL, RETRY_TOPIC
from steelyard.wire.stored_messages import decode_messages

_SEND_BACK_MS = 5_000
_RETRY_HERE_MS = 5_000
_SUSPEND_MS = 1_000
_LOCK_SOON_MS, _LOCK_LATER_MS = 10, 3_000
_FIRST_LEVEL = 3
_MAX_RECONSUME_TIMES = 16


class JavaHandlerPool(ABC):
    """A pool of handler threads. Its two kinds say what a thread does, and what follows."""

    def __init__(self, state: JavaState, handler: UserHandler) -> None:
        self.state, self._handler = state, handler
        self._free_threads = state.options.handlers
        self._waiting: deque[tuple[JavaProcessQueue, StoredMessage | None]] = deque()

    @abstractmethod
    def submit(self, process_queue: JavaProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Take pulled messages."""

    def enqueue(self, process_queue: JavaProcessQueue, message: StoredMessage | None) -> None:
        """Queue a task for a thread."""
        self._waiting.append((process_queue, message))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._free_threads and self._waiting and not self.state.is_stopped:
            self._free_threads -= 1
            self.run_task(*self._waiting.popleft())

    def release_thread(self) -> None:
        """Return a thread to the pool."""
        self._free_threads += 1
        self._start_waiting()

    @abstractmethod
    def run_task(self, process_queue: JavaProcessQueue, message: StoredMessage | None) -> None:
        """Run a task in a thread, and release the thread at the end."""

    @abstractmethod
    def handler_returned(self, process_queue: JavaProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Process the result of a handler."""

    def run_handler(self, process_queue: JavaProcessQueue, message: StoredMessage) -> None:
        """Start a handler; `handler_returned` follows."""
        options, world = self.state.options, self.state.process.world
        attempt = process_queue.attempts.get(message.offset, 0)
        process_queue.attempts[message.offset] = attempt + 1
        uid = message.body.decode(errors="replace")
        world.record(
            HandlerStarted(
                at_ms=world.now_ms(),
                member=options.id,
                group=options.group,
                queue=process_queue.queue,
                offset=message.offset,
                uid=uid,
                attempt=attempt,
                reconsume_times=message.reconsume_times,
            )
        )
        took_ms, ok = self._handler(message, attempt)
        self.state.process.call_later(took_ms, partial(self._record_returned, process_queue, message, uid, ok))

    def _record_returned(self, process_queue: JavaProcessQueue, message: StoredMessage, uid: str, ok: bool) -> None:
        options, world = self.state.options, self.state.process.world
        process_queue.last_consume_ms = self.state.now_ms()
        world.record(
            HandlerEnded(
                at_ms=world.now_ms(),
                member=options.id,
                group=options.group,
                queue=process_queue.queue,
                offset=message.offset,
                uid=uid,
                ok=ok,
            )
        )
        if not self.state.is_stopped:
            self.handler_returned(process_queue, message, ok=ok)

    def send_to_retry_topic(self, message: StoredMessage, times: int, max_reconsume_times: int) -> JavaThread[bool]:
        """Send a failed message to the retry topic as a new one; return whether it is stored.

        ``times`` counts its attempts: the broker compares it with ``max_reconsume_times``.
        """
        state, topic = self.state, self.state.options.retry_topic
        route = state.routes.get(topic)
        queues = [] if route is None else route.publish_list().queues
        if not queues:
            return False
        queue = state.process.world.random.choice(queues)
        properties = {RETRY_TOPIC: message.topic} | dict(message.properties)
        properties[DELAY_LEVEL] = str(_FIRST_LEVEL + message.reconsume_times)
        header = SendMessageV2(
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
            max_reconsume_times,
        )
        address = state.addresses.get(queue.broker)
        if address is None:
            return False
        response = yield JavaRequest(address, state.request(RequestCode.SEND_MESSAGE_V2, header, message.body))
        return response is not None and response.code in STORED_CODES


class JavaConcurrentPool(JavaHandlerPool):
    """Any thread handles any message."""

    def submit(self, process_queue: JavaProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Take pulled messages."""
        for message in messages:
            self.enqueue(process_queue, message)

    def run_task(self, process_queue: JavaProcessQueue, message: StoredMessage | None) -> None:
        """Handle a message, unless its queue was dropped meanwhile."""
        if process_queue.is_dropped or message is None:
            self.release_thread()
        else:
            self.run_handler(process_queue, message)

    def handler_returned(self, process_queue: JavaProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Finish what succeeded, send back what failed; ignore it if the queue was dropped."""
        if process_queue.is_dropped:
            self.release_thread()
        elif ok or self.state.is_broadcasting:
            self._message_done(process_queue, message)
        else:
            self.state.client.run_thread(self._send_back(message), partial(self._sent_back, process_queue, message))

    def _send_back(self, message: StoredMessage) -> JavaThread[bool]:
        state = self.state
        header = SendMessageBack(
            message.position,
            state.options.group,
            0,
            message.offset_id,
            message.topic,
            max_reconsume_times=_MAX_RECONSUME_TIMES,
        )
        address = state.addresses.get(message.queue.broker)
        if address is not None:
            command = state.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            response = yield JavaRequest(address, command, _SEND_BACK_MS)
            if response is not None and response.code == ResponseCode.SUCCESS:
                return True
        return (yield from self.send_to_retry_topic(message, message.reconsume_times + 1, _MAX_RECONSUME_TIMES))

    def _sent_back(self, process_queue: JavaProcessQueue, message: StoredMessage, is_accepted: bool) -> None:
        if is_accepted:
            self._message_done(process_queue, message)
        else:
            self.state.process.call_later(_RETRY_HERE_MS, partial(self.enqueue, process_queue, message))
            self.release_thread()

    def _message_done(self, process_queue: JavaProcessQueue, message: StoredMessage) -> None:
        offset = process_queue.remove_message(message.offset)
        if not process_queue.is_dropped:
            self.state.update_offset(process_queue.queue, offset)
        self.release_thread()


class JavaOrderlyPool(JavaHandlerPool):
    """One thread for each queue, as long as its lock is young."""

    def submit(self, process_queue: JavaProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Take pulled messages."""
        if messages:
            self._enqueue_queue(process_queue)

    def _enqueue_queue(self, process_queue: JavaProcessQueue) -> None:
        if not process_queue.is_busy:
            process_queue.is_busy = True
            self.enqueue(process_queue, None)

    def run_task(self, process_queue: JavaProcessQueue, message: StoredMessage | None) -> None:
        """Handle the next message of a queue, if the lock allows it."""
        del message  # the queue knows which one is next
        if process_queue.is_dropped:
            self._release_queue(process_queue)
        elif not process_queue.is_locked or process_queue.is_lock_expired(self.state.now_ms()):
            self._release_queue(process_queue)
            self.state.process.call_later(_LOCK_SOON_MS, partial(self._lock_before_handling, process_queue))
        else:
            taken = process_queue.pop_message()
            if taken is None:
                self._release_queue(process_queue)
            else:
                process_queue.is_in_listener = True
                self.run_handler(process_queue, taken)

    def _release_queue(self, process_queue: JavaProcessQueue) -> None:
        process_queue.is_busy = False
        self.release_thread()

    def _lock_before_handling(self, process_queue: JavaProcessQueue) -> None:
        if not process_queue.is_dropped:
            self.state.client.run_thread(
                lock_queue(self.state, process_queue.queue), partial(self._locked, process_queue)
            )

    def _locked(self, process_queue: JavaProcessQueue, is_locked: bool) -> None:
        self.state.process.call_later(
            _LOCK_SOON_MS if is_locked else _LOCK_LATER_MS, partial(self._enqueue_queue, process_queue)
        )

    def handler_returned(self, process_queue: JavaProcessQueue, message: StoredMessage, *, ok: bool) -> None:
        """Go on with the next message, or try the same again after a while."""
        process_queue.is_in_listener = False
        if ok:
            self._commit(process_queue)
            return
        max_attempts, attempts = self.state.options.max_attempts, process_queue.attempts[message.offset]
        if max_attempts >= 0 and attempts > max_attempts:
            # 4.9 does not count the last attempt, and its broker gives up one attempt earlier.
            times = attempts - 1 if self.state.release is ApacheRelease.V4 else attempts
            self.state.client.run_thread(
                self.send_to_retry_topic(message, times, max_attempts), partial(self._given_up, process_queue)
            )
        else:
            self._retry_later(process_queue)

    def _given_up(self, process_queue: JavaProcessQueue, is_stored: bool) -> None:
        if is_stored:
            self._commit(process_queue)
        else:
            self._retry_later(process_queue)

    def _commit(self, process_queue: JavaProcessQueue) -> None:
        offset = process_queue.commit()
        if not process_queue.is_dropped:
            self.state.update_offset(process_queue.queue, offset)
        self.run_task(process_queue, None)

    def _retry_later(self, process_queue: JavaProcessQueue) -> None:
        process_queue.return_taken()
        self._release_queue(process_queue)
        self.state.process.call_later(_SUSPEND_MS, partial(self._enqueue_queue, process_queue))


_COMMITS, _MAY_WAIT = 1, 2
_PULL_BATCH = 32
_PULL_SUSPEND_MS, _PULL_TIMEOUT_MS = 15_000, 30_000
_FULL_MS, _ERROR_MS, _BUSY_MS = 50, 1_000, 20
_OFFSET_MOVED_MS = 10_000
"""After this 4.9 resets a queue whose offset is out of range."""


class JavaPullLoop:
    """Pulls queues, and passes messages to ``submit``."""

    def __init__(self, state: JavaState, submit: Callable[[JavaProcessQueue, Sequence[StoredMessage]], None]) -> None:
        self._state, self._submit = state, submit

    def pull(self, process_queue: JavaProcessQueue) -> None:
        """Pull a queue, now or as soon as it is allowed."""
        state = self._state
        if process_queue.is_dropped or state.is_stopped:
            return
        process_queue.last_pull_ms = state.now_ms()
        if process_queue.is_full:
            self._pull_later(process_queue, _FULL_MS)
        elif not state.is_orderly or process_queue.was_previously_locked:
            self._send_pull(process_queue)
        elif process_queue.is_locked:
            state.client.run_thread(
                fetch_start_offset(state, process_queue.queue), partial(self._start_at, process_queue)
            )
        else:
            self._pull_later(process_queue, _ERROR_MS)

    def _start_at(self, process_queue: JavaProcessQueue, start: int | None) -> None:
        """Start an orderly queue, with the offset queried again under the lock."""
        if start is None:
            self._pull_later(process_queue, _ERROR_MS)
        else:
            process_queue.was_previously_locked, process_queue.next_offset = True, start
            self.pull(process_queue)

    def _pull_later(self, process_queue: JavaProcessQueue, delay_ms: int) -> None:
        self._state.process.call_later(delay_ms, partial(self.pull, process_queue))

    def _send_pull(self, process_queue: JavaProcessQueue) -> None:
        state, queue = self._state, process_queue.queue
        if state.is_orderly and not process_queue.is_locked:
            self._pull_later(process_queue, _ERROR_MS)
            return
        address = state.addresses.get(queue.broker)
        if address is None:
            self._pull_later(process_queue, _ERROR_MS)
            return
        commit = 0 if state.is_broadcasting else state.offsets.get(queue, 0)
        header = PullMessage(
            state.options.group,
            queue.topic,
            queue.queue_id,
            process_queue.next_offset,
            _PULL_BATCH,
            _MAY_WAIT | (_COMMITS if commit > 0 else 0),
            max(commit, 0),
            _PULL_SUSPEND_MS,
            state.subscription_versions[queue.topic],
        )
        command = state.request(RequestCode.PULL_MESSAGE, header)
        state.client.request(address, command, _PULL_TIMEOUT_MS, partial(self._pull_answered, process_queue))

    def _pull_answered(self, process_queue: JavaProcessQueue, response: Command | None) -> None:
        code = None if response is None else response.code
        if response is None or code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            self._pull_later(process_queue, _BUSY_MS if code == ResponseCode.FLOW_CONTROL else _ERROR_MS)
            return
        header = response.header(PullMessageResponse)
        if code == ResponseCode.PULL_OFFSET_MOVED:
            self._offset_moved(process_queue, header.next_begin_offset)
            return
        process_queue.next_offset = header.next_begin_offset
        if code == ResponseCode.SUCCESS and not process_queue.is_dropped:
            subscription = self._state.options.topics.get(process_queue.queue.topic)
            messages = [
                each
                for each in decode_messages(response.body, process_queue.queue.broker)
                if subscription is None or subscription.matches_tag(each.tags)
            ]
            process_queue.put(messages)
            self._submit(process_queue, messages)
        elif not process_queue.message_count and not process_queue.is_dropped:
            self._state.update_offset(process_queue.queue, header.next_begin_offset)
        self.pull(process_queue)

    def _offset_moved(self, process_queue: JavaProcessQueue, offset: int) -> None:
        """Drop a queue whose offset is out of range; the next rebalance adds it again, at the right offset."""
        process_queue.is_dropped = True
        state = self._state
        if state.release is ApacheRelease.V4:
            state.process.call_later(_OFFSET_MOVED_MS, lambda: self._reset_offset(process_queue, offset))
        else:
            self._reset_offset(process_queue, offset)
            state.rebalance_immediately()

    def _reset_offset(self, process_queue: JavaProcessQueue, offset: int) -> None:
        state, queue = self._state, process_queue.queue
        state.update_offset(queue, offset, increase_only=False)
        state.persist(queue)
        if state.queues.get(queue) is process_queue:
            del state.queues[queue]
