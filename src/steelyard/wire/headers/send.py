"""Headers of sending: plain, short names, batch, reply, send-back, transactions.

Java's clients send with `SendMessageV2` (310), with one letter per field, since it is the hottest request.
`SendMessage` (10) is the same with full names.
"""

from functools import lru_cache

from msgspec import field

from steelyard.wire.binary_header import pack_fields
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import BOOL_TEXTS, BrokerRequest, TopicRequest, packed_length
from steelyard.wire.java_json import Int32, Int64


class SendMessage(TopicRequest, frozen=True):
    """10 SEND_MESSAGE and 324 SEND_REPLY_MESSAGE: a message, with full names."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageV2(Header, frozen=True):
    """310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE and 325 SEND_REPLY_MESSAGE_V2: a message, one letter per field."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int32 | None = field(default=None, name="j")
    unit_mode: bool | None = field(default=None, name="k")
    max_reconsume_times: Int32 | None = field(default=None, name="l")
    batch: bool | None = field(default=None, name="m")
    broker: str | None = field(default=None, name="n")

    def texts(self) -> tuple[str, ...]:
        """Return the fields as texts; by hand, because every sent message has it."""
        return (
            self.producer_group,
            self.topic,
            self.default_topic,
            str(self.default_topic_queue_nums),
            str(self.queue_id),
            str(self.sys_flag),
            str(self.born_timestamp),
            str(self.flag),
            self.properties or "",
            "" if self.reconsume_times is None else str(self.reconsume_times),
            BOOL_TEXTS[self.unit_mode],
            "" if self.max_reconsume_times is None else str(self.max_reconsume_times),
            BOOL_TEXTS[self.batch],
            self.broker or "",
        )

    def packed(self) -> bytes | None:
        """Return the fields packed; those that a producer repeats are packed once."""
        queue, flags = b"%d" % self.queue_id, b"%d" % self.sys_flag
        born, flag = b"%d" % self.born_timestamp, b"%d" % self.flag
        properties = self.properties.encode() if self.properties else b""
        return b"%b\0\1e\0\0\0%c%b\0\1f\0\0\0%c%b\0\1g\0\0\0%c%b\0\1h\0\0\0%c%b%b%b%b" % (
            _pack_topic_fields(self.producer_group, self.topic, self.default_topic, self.default_topic_queue_nums),
            len(queue),
            queue,
            len(flags),
            flags,
            len(born),
            born,
            len(flag),
            flag,
            b"\0\1i" + packed_length(properties) if properties else b"",
            properties,
            _pack_retry_fields(self.reconsume_times, self.unit_mode, self.max_reconsume_times, self.batch, self.broker),
        )


@lru_cache(maxsize=4096)
def _pack_topic_fields(group: str, topic: str, default: str, queues: int) -> bytes:
    return pack_fields((("a", group), ("b", topic), ("c", default), ("d", str(queues))))


@lru_cache(maxsize=4096)
def _pack_retry_fields(
    retries: int | None, unit: bool | None, most: int | None, batch: bool | None, broker: str | None
) -> bytes:
    counts = ["" if each is None else str(each) for each in (retries, most)]
    texts = (counts[0], BOOL_TEXTS[unit], counts[1], BOOL_TEXTS[batch], broker or "")
    return pack_fields(zip("jklmn", texts, strict=True))


class SendMessageResponse(Header, frozen=True):
    """The response to a send. ``msg_id`` is the offset id; a batch has several, joined by commas."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = field(default=None, name="MSG_REGION")
    trace_on: str | None = field(default=None, name="TRACE_ON")

    def texts(self) -> tuple[str, ...]:
        """Return the fields as texts; by hand, because every send has one."""
        return (
            self.msg_id,
            str(self.queue_id),
            str(self.queue_offset),
            self.transaction_id or "",
            self.batch_uniq_id or "",
            self.recall_handle or "",
            self.msg_region or "",
            self.trace_on or "",
        )

    def packed(self) -> bytes | None:
        """Return the fields packed; None for the rare ones."""
        if self.batch_uniq_id or self.recall_handle or not self.msg_region or not self.trace_on or not self.msg_id:
            return None
        place, region, trace = self.msg_id.encode(), self.msg_region.encode(), self.trace_on.encode()
        queue, offset = b"%d" % self.queue_id, b"%d" % self.queue_offset
        unique = self.transaction_id
        return (
            b"\0\5msgId%b%b\0\7queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b%b\0\x0aMSG_REGION%b%b\0\x08TRACE_ON%b%b"
            % (
                packed_length(place),
                place,
                len(queue),
                queue,
                len(offset),
                offset,
                b"\0\x0dtransactionId%b%b" % (packed_length(unique.encode()), unique.encode()) if unique else b"",
                packed_length(region),
                region,
                packed_length(trace),
                trace,
            )
        )


class SendMessageBack(BrokerRequest, frozen=True):
    """36 CONSUMER_SEND_MSG_BACK: redeliver a message later; ``offset`` is its position in the commit log.

    ``steelyard_error`` is ours: why it failed.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    steelyard_error: str | None = None


class EndTransaction(BrokerRequest, frozen=True):
    """37 END_TRANSACTION: ``commit_or_rollback`` is 8, 12, or 0 for not known yet."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool | None = None
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionState(BrokerRequest, frozen=True):
    """39 CHECK_TRANSACTION_STATE, broker to producer: whether to commit or roll back a half message."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class PushReplyMessage(SendMessage, frozen=True, kw_only=True):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT, broker to client: the reply to a request of this client."""

    born_host: str
    store_host: str
    store_timestamp: Int64
