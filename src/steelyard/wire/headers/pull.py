"""Headers of pulls and message queries."""

from functools import lru_cache

from msgspec import field

from steelyard.wire.binary_header import pack_fields
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import BOOL_TEXTS, TopicRequest
from steelyard.wire.java_json import Int32, Int64


class PullMessage(TopicRequest, frozen=True):
    """11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE.

    ``sys_flag`` bits: 1 commit_offset is valid, 2 may be held, 4 subscription is set, 8 class filter, 16 lite.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_client_id: str | None = field(default=None, name="proxyFrowardClientId")

    def texts(self) -> tuple[str, ...]:
        """Return the fields as texts; by hand, because every pull has it."""
        most, source = self.max_msg_bytes, self.request_source
        return (
            self.consumer_group,
            self.topic,
            str(self.queue_id),
            str(self.queue_offset),
            str(self.max_msg_nums),
            str(self.sys_flag),
            str(self.commit_offset),
            str(self.suspend_timeout_millis),
            str(self.sub_version),
            self.subscription or "",
            self.expression_type or "",
            "" if most is None else str(most),
            "" if source is None else str(source),
            self.proxy_client_id or "",
            self.broker or "",
            self.namespace or "",
            BOOL_TEXTS[self.is_namespaced],
            BOOL_TEXTS[self.is_oneway],
            self.source or "",
            BOOL_TEXTS[self.logical],
        )

    def packed(self) -> bytes | None:
        """Return the fields packed; those that a consumer repeats are packed once; None for rare ones."""
        if self.request_source is not None or self.proxy_client_id or self.namespace or self.source:
            return None
        if self.is_namespaced is not None or self.is_oneway is not None or self.logical is not None:
            return None
        queue, offset, commit = b"%d" % self.queue_id, b"%d" % self.queue_offset, b"%d" % self.commit_offset
        return b"%b\0\7queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b\0\x0ccommitOffset\0\0\0%c%b%b" % (
            _pack_queue_fields(self.consumer_group, self.topic, self.broker),
            len(queue),
            queue,
            len(offset),
            offset,
            len(commit),
            commit,
            _pack_subscription_fields(
                self.max_msg_nums,
                self.sys_flag,
                self.suspend_timeout_millis,
                self.sub_version,
                self.subscription,
                self.expression_type,
                self.max_msg_bytes,
            ),
        )


@lru_cache(maxsize=4096)
def _pack_queue_fields(group: str, topic: str, broker: str | None) -> bytes:
    return pack_fields((("consumerGroup", group), ("topic", topic), ("bname", broker or "")))


@lru_cache(maxsize=4096)
def _pack_subscription_fields(
    most: int, flags: int, hold_ms: int, version: int, expression: str | None, language: str | None, size: int | None
) -> bytes:
    return pack_fields(
        (
            ("maxMsgNums", str(most)),
            ("sysFlag", str(flags)),
            ("suspendTimeoutMillis", str(hold_ms)),
            ("subVersion", str(version)),
            ("subscription", expression or ""),
            ("expressionType", language or ""),
            ("maxMsgBytes", "" if size is None else str(size)),
        )
    )


class PullMessageResponse(Header, frozen=True):
    """The response to a pull: the next offset, and the bounds of the queue."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None

    def texts(self) -> tuple[str, ...]:
        """Return the fields as texts; by hand, because every pull has one."""
        return (
            str(self.suggest_which_broker_id),
            str(self.next_begin_offset),
            str(self.min_offset),
            str(self.max_offset),
            "" if self.offset_delta is None else str(self.offset_delta),
            "" if self.topic_sys_flag is None else str(self.topic_sys_flag),
            "" if self.group_sys_flag is None else str(self.group_sys_flag),
            "" if self.forbidden_type is None else str(self.forbidden_type),
        )

    def packed(self) -> bytes | None:
        """Return the fields packed; None for the rare ones."""
        topic, group = self.topic_sys_flag, self.group_sys_flag
        if self.offset_delta is not None or self.forbidden_type is not None:
            return None
        suggested, following = b"%d" % self.suggest_which_broker_id, b"%d" % self.next_begin_offset
        lowest, highest = b"%d" % self.min_offset, b"%d" % self.max_offset
        packed = (
            b"\0\x14suggestWhichBrokerId\0\0\0%c%b\0\x0fnextBeginOffset\0\0\0%c%b"
            b"\0\x09minOffset\0\0\0%c%b\0\x09maxOffset\0\0\0%c%b"
            % (len(suggested), suggested, len(following), following, len(lowest), lowest, len(highest), highest)
        )
        if topic is None or group is None:
            return packed if topic is group else None
        topic_text, group_text = b"%d" % topic, b"%d" % group
        return b"%b\0\x0ctopicSysFlag\0\0\0%c%b\0\x0cgroupSysFlag\0\0\0%c%b" % (
            packed,
            len(topic_text),
            topic_text,
            len(group_text),
            group_text,
        )


class QueryMessages(TopicRequest, frozen=True):
    """12 QUERY_MESSAGE: messages by key and time."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    by_unique_key: bool | None = field(default=None, name="_UNIQUE_KEY_QUERY")
    index_type: str | None = None


class QueryMessagesResponse(Header, frozen=True):
    """The response to 12: how far the key index reaches."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessage(TopicRequest, frozen=True):
    """33 VIEW_MESSAGE_BY_ID: the message at a position of the commit log."""

    offset: Int64
    topic: str | None = None


class QueryConsumeQueue(TopicRequest, frozen=True):
    """321 QUERY_CONSUME_QUEUE: raw entries of a consume queue."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
