"""What all ways of sending have in common: checks, names, unique keys, turns, and which queue a key goes to.

It may be used from any thread: a blocking producer prepares a message in the thread that sends it.
"""

import asyncio
import inspect
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import structs

from steelyard.balance.attempts import SendOptions
from steelyard.balance.selectors import ByKey, ByRandom, ByRoom, ByTurn, Selector, select, selector
from steelyard.client.ids import UniqueKeys
from steelyard.client.producing.parcels import Batch, Single, Stamp
from steelyard.client.producing.pickers import Pickers, SharedPicker
from steelyard.dialect.delays import delay_of
from steelyard.errors import ConfigurationError, MessageRefused, NoNameServer
from steelyard.model import Message, Queue
from steelyard.net.clock import now_ms, steady_ms

if TYPE_CHECKING:
    from steelyard.client.producing.producer_options import ProducerOptions
    from steelyard.client.session import Session

__all__ = ["Outbox", "Select"]

A = TypeVar("A")

Select: TypeAlias = (
    str | Callable[[Sequence[Queue], Message], Queue | None] | Callable[[Sequence[Queue], Message, A], Queue | None]
)
"""A selector: its name, one of `steelyard.balance.selectors`, or a callable ``(queues, message) -> queue``. One that
has a third parameter is given ``select_arg``."""

_OURS = ByKey | ByRandom | ByTurn | ByRoom
_BY_HASH = selector("hash")


class Outbox:
    """The outbox of one producer."""

    def __init__(self, session: "Session", group: str, options: "ProducerOptions", stamp: Stamp) -> None:
        self._routes, self._names = session.routes, session.names
        self._most_bytes = options.max_message_bytes
        self.group = group
        self.stamp = stamp
        self.pickers = Pickers(
            options.table if options.avoid_slow_brokers else None, against_median=options.against_median
        )
        self.next_key = UniqueKeys(session.address).next
        self._rooms = options.rooms
        self._selectors: dict[str, Selector] = {}
        self._selecting = threading.Lock()
        session.routes.on_change.append(self.pickers.changed)

    def checked(self, message: Message) -> Message:
        """Return a message as it is sent: its topic in full, its body neither empty nor too large."""
        if not isinstance(message, Message):
            raise ConfigurationError(
                f"a {type(message).__name__} is not a message", next_step="send a steelyard.Message"
            )
        if not message.body:
            raise _refused(message, "its body is empty", "give it a body: brokers since 5.0 refuse one without")
        if len(message.body) > self._most_bytes:
            raise _refused(
                message,
                f"its body has {len(message.body)} bytes, the limit is {self._most_bytes}",
                "send less, or raise max_message_bytes here and at the brokers",
            )
        if not self._names.namespace:
            return message
        return structs.replace(message, topic=self._names.full(message.topic))

    def picker(self, topic: str) -> SharedPicker | None:
        """Return the turns of a topic, if it was sent to before."""
        return self.pickers.known(topic)

    async def find_picker(self, topic: str) -> SharedPicker:
        """Return the turns of a topic, looked up if need be; on the loop."""
        return self.pickers.known(topic) or self.pickers.take(await self._routes.publish_list(topic))

    async def find_in_time(self, topic: str, options: SendOptions) -> tuple[SharedPicker, SendOptions]:
        """Return the turns of a topic, and how to send in what is left of a send's time; raises NoNameServer."""
        began_ms = steady_ms()
        try:
            async with asyncio.timeout(options.timeout_ms / 1000):
                picker = await self.find_picker(topic)
        except TimeoutError:
            raise NoNameServer(
                f"where topic {self._names.bare(topic)!r} is was not told in {options.timeout_ms} ms",
                next_step="check that the name servers are well, or give the send more time",
            ) from None
        return picker, replace(options, spent_ms=steady_ms() - began_ms)

    def single(
        self,
        message: Message,
        *,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        more: Mapping[str, str] | None = None,
        is_oneway: bool = False,
    ) -> Single:
        """Make the parcel of one message."""
        if delay_s is not None or deliver_at is not None:
            delay_of(delay_s, deliver_at, now_ms=now_ms(), timers=True)  # a delay that cannot be is said at once
        return Single(
            self.stamp,
            message,
            self.next_key(),
            delay_s=delay_s,
            deliver_at=deliver_at,
            more=more,
            is_oneway=is_oneway,
        )

    def batch(self, messages: Sequence[Message]) -> Batch:
        """Make the parcel of messages that travel as one."""
        return Batch(self.stamp, messages, [self.next_key() for _ in messages])

    def choose(
        self,
        picker: SharedPicker,
        message: Message,
        key: str | int | None,
        chooses: Select[Any] | None,
        argument: object,
        queue: Queue | None,
    ) -> Queue | None:
        """Return the queue that the caller decided for; None leaves it to the turns."""
        if argument is not None and (chooses is None or key is not None):
            other = "no selector" if chooses is None else "a key too"
            raise ConfigurationError(
                f"select_arg is given, and {other}", next_step="give select and either key or select_arg"
            )
        if queue is not None:
            return self._given(message, key, chooses, queue)
        if chooses is None:
            return None if key is None else select(_BY_HASH, picker.queues, message, key)
        names = self._names
        queues = [names.bare_queue(each) for each in picker.queues] if names.namespace else picker.queues
        shown = structs.replace(message, topic=names.bare(message.topic)) if names.namespace else message
        if isinstance(chooses, str | _OURS):
            with self._selecting:  # some of them take turns
                chosen = select(self._named(chooses), queues, shown, argument if key is None else key)
        else:
            chosen = select(_with_argument(chooses, key, argument), queues, shown, argument)
        return names.full_queue(chosen)

    def _given(self, message: Message, key: object, chooses: object, queue: Queue) -> Queue:
        if key is not None or chooses is not None:
            raise ConfigurationError("a queue is given, and a key or a selector too", next_step="give one of them")
        if not isinstance(queue, Queue):
            raise ConfigurationError(
                f"{queue!r} is not a queue", next_step='give one such as Queue("orders", "broker-a", 0)'
            )
        full = self._names.full_queue(queue)
        if full.topic != message.topic:
            raise ConfigurationError(
                f"a message to {message.topic!r} is to go to {queue}", next_step="give a queue of its own topic"
            )
        return full

    def _named(self, chooses: str | Selector) -> Selector:
        if not isinstance(chooses, str):
            return chooses
        known = self._selectors.get(chooses)
        if known is None:
            known = self._selectors[chooses] = selector(
                chooses, draw=lambda: random.getrandbits(31), rooms=self._rooms, start=random.getrandbits(31)
            )
        return known


def _with_argument(chooses: Callable[..., Queue | None], key: object, argument: object) -> Selector:
    """Return a caller's own rule as a selector: one of two parameters is not given the argument."""
    if not callable(chooses) or key is not None:
        what = "a callable, and a key is given too" if callable(chooses) else f"of type {type(chooses).__name__}"
        raise ConfigurationError(
            f"the selector is {what}",
            next_step="give a callable (queues, message, argument) -> queue and select_arg, or a name and a key",
        )
    name = getattr(chooses, "__name__", type(chooses).__name__)
    if argument is not None:
        if not _takes(chooses, 3):
            raise ConfigurationError(
                f"select_arg is given, and the selector {name!r} has no parameter for it",
                next_step="give a callable (queues, message, argument) -> queue",
            )
        return chooses
    if not _takes(chooses, 2):
        return chooses

    def chosen(queues: Sequence[Queue], message: Message, _argument: object) -> Queue | None:
        return chooses(queues, message)

    chosen.__name__ = name
    return chosen


def _takes(function: Callable[..., object], count: int) -> bool:
    """Say whether so many arguments can be given; what has no signature, as some of C, is believed to take them."""
    if isinstance(function, FunctionType) and not function.__code__.co_flags & inspect.CO_VARARGS:
        # Asked with every send: to ask for a signature takes longer than a queue takes to be chosen.
        most = function.__code__.co_argcount
        return most - len(function.__defaults__ or ()) <= count <= most
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _refused(message: Message, why: str, next_step: str) -> MessageRefused:
    what = f"a message to {message.topic!r} was not sent: {why}"
    return MessageRefused(code=13, server="the producer", what=what, next_step=next_step)
