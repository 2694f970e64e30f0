"""RocketMQ's own message traces, as Java's clients write them if they are told to (``enableMsgTrace``).

What becomes of each message is noted where it happens and written into the trace topic some moments later, many records
in a message, by a producer of its own that nobody watches. `mqadmin queryMsgTraceById`, the Apache dashboard and
`steelyard message trace` find them by the message's id or one of its keys.

It is never in the way: notes wait in a buffer, and what does not fit there, or cannot be stored, is dropped and
counted. As with Java's, a send that failed leaves no record, and neither does the handling of a message whose broker
says that it is not to be traced.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from steelyard.client.ids import UniqueKeys
from steelyard.client.observing.observer import (
    Delivered,
    HandleEnded,
    Incoming,
    Observed,
    Observer,
    Outcome,
    Outgoing,
    SendEnded,
    TransactionEnd,
)
from steelyard.client.producing.sent import Sent
from steelyard.errors import BrokerNotInRoute, SteelyardError
from steelyard.model import Message
from steelyard.net.clock import now_ms
from steelyard.wire.property_names import REGION, TRACE_ON
from steelyard.wire.traces import Trace, write_trace

if TYPE_CHECKING:
    from steelyard.client.connect import Connect
    from steelyard.client.producing.producer import Producer
    from steelyard.client.session import Session

__all__ = ["MessageTrace"]

_MOST = 20_000
"""Records that may wait; beyond that the newest are dropped."""
_PAUSE_S = 0.5
_LAST_S = 3.0
"""How long the end of a client waits for what is not written."""
_RECORDS = 200
_BODY_BYTES = 100_000
_KEYS_BYTES = 16_000
"""How large a message of traces gets: the properties of a message have room for 32 KiB, and keys are among them."""
_AT_ONCE = 8
_GROUP = "_INNER_TRACE_PRODUCER"
_LONGEST_GROUP = 255
_SIDES = {"producer": "PRODUCE", "consumer": "CONSUME"}
_OUTCOMES = {"done": "done", "failed": "raised", "later": "failed"}

_log = logging.getLogger("steelyard")
_numbers = count(1)


class _Record(NamedTuple):
    """One record, and what it is found by."""

    keys: list[str]
    text: bytes


class MessageTrace(Observer):
    """Writes down what one client does. Notes come from any thread; `start` and `close` are called on the loop."""

    def __init__(self, connect: "Connect", kind: str, group: str, topic: str) -> None:
        self._connect = replace(connect, namespace="", name="trace")
        self._group = f"{_GROUP}-{group}-{_SIDES[kind]}-{next(_numbers)}"[:_LONGEST_GROUP]
        self._topic = topic
        self._waiting: deque[Trace] = deque()
        self._session: Session | None = None
        self._producer: Producer | None = None
        self._writing = asyncio.Lock()
        self._is_told = False
        self.dropped = 0
        """How many records were not written."""

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self, session: "Session") -> None:
        """Begin to write."""
        self._session = session
        self._next_key = UniqueKeys(session.address).next
        session.spawn(self._write_now_and_then())

    async def close(self) -> None:
        """Write what is waiting, as far as that can be done in a moment."""
        try:
            async with asyncio.timeout(_LAST_S):
                await self._write()
        except TimeoutError:
            self._drop(len(self._waiting), "they could not be written in time")
        if self._producer is not None:
            await self._producer.close()

    # -- noting -------------------------------------------------------------------------------------------------------

    def sending(self, client: Observed, outgoing: Outgoing) -> SendEnded | None:
        """Note what is sent, once it is stored."""
        began_ms = now_ms()

        def ended(delivered: Delivered) -> None:
            took_ms = delivered.took_ns // 1_000_000 // len(outgoing.messages)
            for message, sent in zip(outgoing.messages, delivered.results, strict=False):
                if isinstance(sent, Sent) and not message.topic.startswith(self._topic):
                    self._note(self._sent(client, message, sent, outgoing.kind, began_ms, took_ms))

        return ended

    def _sent(self, client: Observed, message: Message, sent: Sent, kind: str, at_ms: int, took_ms: int) -> Trace:
        return Trace(
            what="sent",
            message_id=sent.message_id,
            at_ms=at_ms,
            group=client.group,
            topic=message.topic,
            tags=message.tags,
            keys=" ".join(message.keys),
            store_host=self._host(sent.queue.broker),
            body_bytes=len(message.body),
            took_ms=took_ms,
            kind=kind,
            offset_id=sent.offset_id,
            went_well=not sent.late,
        )

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Note how a transaction ended."""
        self._note(
            Trace(
                what="transaction ended",
                message_id=end.message_id,
                at_ms=now_ms(),
                group=client.group,
                topic=end.topic,
                tags=end.tags,
                keys=" ".join(end.keys),
                store_host=self._host(end.broker),
                kind="commit",
                went_well=end.commits,
                was_asked=end.was_asked,
            )
        )

    def handling(self, client: Observed, incoming: Incoming) -> HandleEnded | None:
        """Note that messages are handled, and what came of it."""
        request_id, began_ms = self._next_key(), now_ms()
        traces = [
            Trace(
                what="received",
                message_id=message.message_id,
                at_ms=began_ms,
                group=client.group,
                request_id=request_id,
                attempt=1 + message.reconsume_times,
                keys=" ".join(message.keys),
                region=message.properties.get(REGION),
            )
            for message in incoming.messages
            if message.properties.get(TRACE_ON) != "false" and not message.topic.startswith(self._topic)
        ]
        for trace in traces:
            self._note(trace)

        def ended(outcome: Outcome) -> None:
            if outcome.became not in _OUTCOMES:
                return
            took_ms = outcome.took_ns // 1_000_000 // len(incoming.messages)
            for trace in traces:
                self._note(
                    replace(
                        trace,
                        what="handled",
                        at_ms=now_ms(),
                        took_ms=took_ms,
                        went_well=outcome.became == "done",
                        outcome=_OUTCOMES[outcome.became],
                    )
                )

        return ended if traces else None

    def _note(self, trace: Trace) -> None:
        if len(self._waiting) < _MOST:
            self._waiting.append(trace)
        else:
            self._drop(1, "more happens than can be written")

    def _host(self, broker: str) -> str | None:
        try:
            return None if self._session is None else self._session.address_of(broker)
        except BrokerNotInRoute:
            return None

    def _drop(self, records: int, why: str) -> None:
        self.dropped += records
        if records and not self._is_told:
            self._is_told = True
            _log.warning("traces of messages are dropped (%s): topic %s", why, self._topic)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            if self._waiting:
                await self._write()

    async def _write(self) -> None:
        async with self._writing:
            while self._waiting:
                together = [part for _ in range(_AT_ONCE) if (part := list(self._next_part()))]
                await asyncio.gather(*map(self._send, together))

    def _next_part(self) -> Iterator[_Record]:
        """Take as many records as fit into one message."""
        records = body_bytes = keys_bytes = 0
        while self._waiting and records < _RECORDS and body_bytes < _BODY_BYTES and keys_bytes < _KEYS_BYTES:
            trace = self._waiting.popleft()
            record = _Record(_keys(trace), write_trace(trace).encode(errors="replace"))
            records += 1
            body_bytes += len(record.text)
            keys_bytes += sum(len(key.encode()) + 1 for key in record.keys)
            yield record

    async def _send(self, records: Sequence[_Record]) -> None:
        keys = dict.fromkeys(key for record in records for key in record.keys)
        try:
            producer = await self._open_producer()
            await producer.send(Message(self._topic, b"".join(record.text for record in records), keys=list(keys)))
        except SteelyardError as error:
            self._drop(len(records), str(error))

    async def _open_producer(self) -> "Producer":
        if self._producer is None:
            # Not before: a producer that is watched imports this.
            from steelyard.client.producing.producer import Producer

            self._producer = Producer(self._connect, self._group, retries=1, close_timeout_s=1.0)
        return self._producer


def _keys(trace: Trace) -> list[str]:
    """Return what a record is found by: the message's id and its keys, as far as there is room for them.

    What somebody else called his message may be anything, and must not keep the records of others from being stored.
    """
    keys = [key for key in (*trace.message_id.split(), *(trace.keys or "").split()) if key.isprintable()]
    return keys if sum(map(len, keys)) < _KEYS_BYTES // 4 else keys[:1]
