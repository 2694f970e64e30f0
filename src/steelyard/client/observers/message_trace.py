"""Message traces as Java's clients write them with ``enableMsgTrace``.

Each send and each handler call becomes a record, written to the trace topic some moments later, many records in a
message, by a producer of its own. Tools find them by a message's id or one of its keys. Records wait in a buffer; what
does not fit, or cannot be stored, is dropped and counted. As with Java's, a failed send leaves no record, and neither
does a message whose broker has switched tracing off.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from steelyard.client.ids import UniqueKeys
from steelyard.client.observers.observer import (
    HandleEnded,
    HandlerCall,
    HandlerOutcome,
    Observed,
    Observer,
    OutgoingMessages,
    SendEnded,
    SendOutcome,
    TransactionEnd,
)
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import BrokerNotInRoute, SteelyardError
from steelyard.model import Message
from steelyard.net.clock import now_ms
from steelyard.wire.message_traces import TraceEvent, encode_trace
from steelyard.wire.property_names import REGION, TRACE_ON

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig
    from steelyard.client.producer.producer import Producer
    from steelyard.client.session import Session

_MAX_RECORDS = 20_000
"""How many records may wait; beyond that new ones are dropped."""
_PAUSE_S = 0.5
_CLOSE_TIMEOUT_S = 3.0
_RECORDS_PER_MESSAGE = 200
_BODY_BYTES = 100_000
_KEYS_BYTES = 16_000
"""The size of a message of traces: its properties have room for 32 KiB, and keys are among them."""
_PARALLEL_SENDS = 8
TRACE_GROUP = "_INNER_TRACE_PRODUCER"
"""What the groups of the producers of traces begin with."""
_LONGEST_GROUP = 255
_SIDES = {"producer": "PRODUCE", "consumer": "CONSUME"}
_OUTCOMES = {"done": "done", "failed": "raised", "later": "failed"}

_log = logging.getLogger("steelyard.client")
_numbers = count(1)


class _Record(NamedTuple):
    """One record, and its keys."""

    keys: list[str]
    text: bytes


class MessageTraceWriter(Observer):
    """Writes the traces of one client. Records come from any thread; `start` and `close` are called on the loop."""

    def __init__(self, config: "ClientConfig", kind: str, group: str, topic: str) -> None:
        self._config = replace(config, namespace="", name="trace")
        self._group = f"{TRACE_GROUP}-{group}-{_SIDES[kind]}-{next(_numbers)}"[:_LONGEST_GROUP]
        self._topic = topic
        self._waiting: deque[TraceEvent] = deque()
        self._session: Session | None = None
        self._producer: Producer | None = None
        self._writing = asyncio.Lock()
        self._has_warned = False
        self.dropped = 0

    def start(self, session: "Session") -> None:
        """Start to write."""
        self._session = session
        self._next_key = UniqueKeys(session.local_address).next
        session.spawn(self._write_periodically())

    async def close(self) -> None:
        """Write what is waiting, within a short time."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._write()
        except TimeoutError:
            self._drop(len(self._waiting), "they could not be written in time")
        if self._producer is not None:
            await self._producer.close()

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Record messages once they are stored."""
        began_ms = now_ms()

        def ended(delivered: SendOutcome) -> None:
            took_ms = delivered.took_ns // 1_000_000 // len(outgoing.messages)
            for message, sent in zip(outgoing.messages, delivered.results, strict=False):
                if isinstance(sent, SendResult) and not message.topic.startswith(self._topic):
                    self._buffer_record(
                        TraceEvent(
                            what="sent",
                            message_id=sent.message_id,
                            at_ms=began_ms,
                            group=client.group,
                            topic=message.topic,
                            tags=message.tags,
                            keys=" ".join(message.keys),
                            store_host=self._host(sent.queue.broker),
                            body_bytes=len(message.body),
                            took_ms=took_ms,
                            kind=outgoing.kind,
                            offset_id=sent.offset_id,
                            went_well=not sent.late,
                        )
                    )

        return ended

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Record how a transaction ended."""
        self._buffer_record(
            TraceEvent(
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

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Record that messages are handled, and the outcome."""
        request_id, began_ms = self._next_key(), now_ms()
        traces = [
            TraceEvent(
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
            self._buffer_record(trace)

        def ended(outcome: HandlerOutcome) -> None:
            if outcome.became not in _OUTCOMES:
                return
            took_ms = outcome.took_ns // 1_000_000 // len(incoming.messages)
            for trace in traces:
                self._buffer_record(
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

    def _buffer_record(self, trace: TraceEvent) -> None:
        if len(self._waiting) < _MAX_RECORDS:
            self._waiting.append(trace)
        else:
            self._drop(1, "more records than can be written")

    def _host(self, broker: str) -> str | None:
        try:
            return None if self._session is None else self._session.broker_address(broker)
        except BrokerNotInRoute:
            return None

    def _drop(self, records: int, why: str) -> None:
        self.dropped += records
        if records and not self._has_warned:
            self._has_warned = True
            _log.warning("traces of messages are dropped (%s): topic %s", why, self._topic)

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            if self._waiting:
                await self._write()

    async def _write(self) -> None:
        async with self._writing:
            while self._waiting:
                together = [part for _ in range(_PARALLEL_SENDS) if (part := list(self._next_part()))]
                await asyncio.gather(*map(self._send, together))

    def _next_part(self) -> Iterator[_Record]:
        """Yield as many records as fit into one message."""
        records = body_bytes = keys_bytes = 0
        while (
            self._waiting and records < _RECORDS_PER_MESSAGE and body_bytes < _BODY_BYTES and keys_bytes < _KEYS_BYTES
        ):
            trace = self._waiting.popleft()
            record = _Record(_keys(trace), encode_trace(trace).encode(errors="replace"))
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
            # Not at the top: the producer imports this module.
            from steelyard.client.producer.producer import Producer

            self._producer = Producer(self._config, self._group, retries=1, close_timeout_s=1.0)
        return self._producer


def _keys(trace: TraceEvent) -> list[str]:
    """Return the keys of a record: the message's id and its keys, as far as there is room.

    A message's keys may be anything, and must not keep the records of others from being stored.
    """
    keys = [key for key in (*trace.message_id.split(), *(trace.keys or "").split()) if key.isprintable()]
    return keys if sum(map(len, keys)) < _KEYS_BYTES // 4 else keys[:1]
