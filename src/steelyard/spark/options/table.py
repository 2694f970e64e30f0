"""Every option of the source and the sink: one table, from which they are read, corrected and documented.

Names and meanings are those of Spark's Kafka connector where there is such an option; what only a RocketMQ can do has a
name of its own. Spark hands options over in lower case, so a name is found without regard to case.
"""

from dataclasses import dataclass
from enum import Enum, Flag, auto

__all__ = ["OPTIONS", "Kind", "Mode", "Option", "listed"]


class Mode(Flag):
    """Where an option means something."""

    BATCH = auto()
    STREAM = auto()
    WRITE = auto()
    READ = BATCH | STREAM
    ANY = BATCH | STREAM | WRITE


class Kind(Enum):
    """What a value looks like; the value of each is how people are told."""

    TEXT = "text"
    SWITCH = "true or false"
    COUNT = "a whole number of 1 or more"
    SPAN = "milliseconds, or a time span such as 15m"
    SIZE = "bytes, or a size such as 64m"
    PLACE = "a place in queues"
    TIME = "milliseconds since 1970, a time with its zone, or so long ago: -2h"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Option:
    """One option."""

    name: str
    kind: Kind
    default: str | None
    """As it would be written; None if there is none."""
    modes: Mode
    sentence: str


def listed(mode: Mode) -> tuple[Option, ...]:
    """Return the options of a mode, in order.

    >>> "endingOffsets" in [option.name for option in listed(Mode.STREAM)]
    False
    """
    return tuple(option for option in OPTIONS if option.modes & mode)


OPTIONS: tuple[Option, ...] = (
    # -- where the cluster is -----------------------------------------------------------------------------------------
    Option(
        "namesrv",
        Kind.TEXT,
        None,
        Mode.ANY,
        "The name servers, with ; between them; without it the environment's NAMESRV_ADDR counts, then localhost:9876.",
    ),
    Option(
        "namespace",
        Kind.TEXT,
        None,
        Mode.ANY,
        "Put in front of every topic and group, and taken away from what is in the topic column.",
    ),
    Option("accessKey", Kind.TEXT, None, Mode.ANY, "The key that requests are signed with; it goes with secretKey."),
    Option("secretKey", Kind.TEXT, None, Mode.ANY, "The secret that goes with accessKey."),
    Option("securityToken", Kind.TEXT, None, Mode.ANY, "The token that goes with a temporary key."),
    Option(
        "tls",
        Kind.TEXT,
        "false",
        Mode.ANY,
        "Whether lines are encrypted: true, false, or the path of a file of authorities to trust, on every machine.",
    ),
    Option("tlsCertificate", Kind.TEXT, None, Mode.ANY, "The path of our own certificate, if servers ask for one."),
    Option("tlsKey", Kind.TEXT, None, Mode.ANY, "The path of the certificate's key, if it is in a file of its own."),
    Option("tlsKeyPassword", Kind.TEXT, None, Mode.ANY, "What the key is locked with."),
    Option("tlsVerify", Kind.SWITCH, "true", Mode.ANY, "Whether servers have to prove who they are."),
    # -- what is read -------------------------------------------------------------------------------------------------
    Option("subscribe", Kind.TEXT, None, Mode.READ, "The topics to read, with commas between them."),
    Option(
        "subscribePattern",
        Kind.TEXT,
        None,
        Mode.READ,
        "Read the topics whose whole name a regular expression matches, also those that come later; never topics of "
        "the servers, retries or dead letters.",
    ),
    Option(
        "assign",
        Kind.JSON,
        None,
        Mode.READ,
        'Read certain queues and no others: {"orders": {"broker-a": [0, 1]}}.',
    ),
    Option(
        "tags",
        Kind.TEXT,
        None,
        Mode.READ,
        "Only messages with these tags, as in: paid || refunded; brokers leave the others out.",
    ),
    Option(
        "sql",
        Kind.TEXT,
        None,
        Mode.READ,
        "Only messages whose properties meet a SQL92 condition, as in: amount > 10; brokers leave the others out.",
    ),
    Option(
        "includeProperties",
        Kind.SWITCH,
        "true",
        Mode.READ,
        "Whether there is a column of all properties; without it reading is about twice as fast.",
    ),
    # -- from where to where ------------------------------------------------------------------------------------------
    Option(
        "startingOffsets",
        Kind.PLACE,
        None,
        Mode.READ,
        "Where to begin: earliest (a batch does so by default), latest (only streams, and their default), group (how "
        "far that group is; its first message where it is nowhere), so long ago such as -2h, or an offset for each "
        'queue: {"orders": {"broker-a": {"0": 123}}}, where -2 is earliest and -1 latest, and queues that are not '
        "named begin at their first message. A stream with a checkpoint goes on from there instead.",
    ),
    Option(
        "startingTimestamp",
        Kind.TIME,
        None,
        Mode.READ,
        "Begin with the first message of each queue that was stored at a time or later; so long ago counts from when "
        "the query is planned. A queue that has none begins at its end: see startingOffsetsByTimestampStrategy.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        Kind.JSON,
        None,
        Mode.READ,
        'Begin each queue at a time of its own, in milliseconds since 1970: {"orders": {"broker-a": {"0": '
        "1700000000000}}}; queues that are not named begin at their first message.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        Kind.TEXT,
        "latest",
        Mode.READ,
        "What to do with a queue that has no message at the starting time or later: latest begins at its end, error "
        "fails.",
    ),
    Option(
        "endingOffsets",
        Kind.PLACE,
        "latest",
        Mode.BATCH,
        "Where to end, exclusively: latest as of planning, group, so long ago, or an offset for each queue as in "
        "startingOffsets; queues that are not named end at their last message.",
    ),
    Option(
        "endingTimestamp",
        Kind.TIME,
        None,
        Mode.BATCH,
        "End before the first message of each queue that was stored at a time or later, or at the end of the queue.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        Kind.JSON,
        None,
        Mode.BATCH,
        "End each queue at a time of its own, as in startingOffsetsByTimestamp; queues that are not named end at "
        "their last message.",
    ),
    Option(
        "failOnDataLoss",
        Kind.SWITCH,
        "true",
        Mode.READ,
        "Whether a query fails when messages that it should read are gone: deleted before it came to them, or with "
        "their topic. Otherwise one line of the log names each range, and it goes on with what is there.",
    ),
    Option(
        "onUnreadable",
        Kind.TEXT,
        "fail",
        Mode.READ,
        "What becomes of a message whose body cannot be opened, such as one that says it is compressed and is not: "
        "fail ends the query with its queue and offset, skip leaves it out, null gives it without a body; the last two "
        "say so in the log. A query that does not want the body opens none.",
    ),
    # -- how much at a time -------------------------------------------------------------------------------------------
    Option(
        "maxOffsetsPerTrigger",
        Kind.COUNT,
        None,
        Mode.STREAM,
        "A batch has at most so many messages (before tags or sql), shared fairly over queues.",
    ),
    Option(
        "minOffsetsPerTrigger",
        Kind.COUNT,
        None,
        Mode.STREAM,
        "A batch waits until there are so many messages, or maxTriggerDelay is over.",
    ),
    Option("maxTriggerDelay", Kind.SPAN, "15m", Mode.STREAM, "How long minOffsetsPerTrigger may hold a batch back."),
    Option(
        "maxBytesPerTrigger",
        Kind.SIZE,
        None,
        Mode.STREAM,
        "A batch has about so many bytes of stored messages at most: each time that it matters, a few messages are "
        "looked at where the batch begins, and their average size counts for all.",
    ),
    # -- how it is cut into tasks -------------------------------------------------------------------------------------
    Option(
        "minPartitions",
        Kind.COUNT,
        None,
        Mode.READ,
        "At least so many tasks, as long as there are as many messages; long queues are cut into several.",
    ),
    Option(
        "maxPartitions",
        Kind.COUNT,
        "16",
        Mode.READ,
        "At most so many tasks, unless minPartitions is more: short queues share one, since each task costs its start.",
    ),
    Option(
        "maxRecordsPerPartition",
        Kind.COUNT,
        "500000",
        Mode.READ,
        "A task should not have more messages than this, as long as maxPartitions allows it.",
    ),
    # -- groups -------------------------------------------------------------------------------------------------------
    Option(
        "group",
        Kind.TEXT,
        None,
        Mode.ANY,
        "Reading: the group that pulls are made under, and that a stream tells brokers of its progress for, after a "
        "batch is written, so that lag shows in any tool; members that consume with the same group move the same "
        "offsets, so give the query a group of its own. Writing: the producer's group.",
    ),
    # -- fine settings ------------------------------------------------------------------------------------------------
    Option(
        "offsetPollMs",
        Kind.SPAN,
        "50",
        Mode.STREAM,
        "How long a stream believes what brokers said about the ends of queues; Spark asks about 90 times a second. "
        "With very many queues it is longer: five times as long as it takes to ask.",
    ),
    Option("pullDepth", Kind.COUNT, "16", Mode.READ, "How many pulls of one task are under way at a time."),
    Option(
        "pullMessages",
        Kind.COUNT,
        "1000",
        Mode.READ,
        "How many messages one pull asks for; a broker has a limit of its own, 32 by default on Apache's.",
    ),
    # -- writing ------------------------------------------------------------------------------------------------------
    Option(
        "topic",
        Kind.TEXT,
        None,
        Mode.WRITE,
        "The topic that all rows are written to, whatever their column says; without it each row names one in its "
        "column.",
    ),
    Option("sendDepth", Kind.COUNT, "16", Mode.WRITE, "How many batches of one task are under way at a time."),
    Option("maxBatchBytes", Kind.SIZE, "1m", Mode.WRITE, "How large a batch of messages may be; a broker takes 4 MiB."),
    Option(
        "maxMessageBytes",
        Kind.SIZE,
        "4m",
        Mode.WRITE,
        "How large a body may be; a larger one fails the task before anything of its Arrow batch is sent.",
    ),
    Option("sendTimeoutMs", Kind.SPAN, "10000", Mode.WRITE, "How long a batch is tried before the task fails."),
    Option(
        "deterministicIds",
        Kind.SWITCH,
        "true",
        Mode.WRITE,
        "Whether a row that is sent again has the same message id, by which readers can drop repeats.",
    ),
    Option(
        "writeId",
        Kind.TEXT,
        None,
        Mode.WRITE,
        "What the ids of a batch write are made of, so that they are the same if it is done again: in foreachBatch, "
        "the batch's number and a word of your own. Streams need none.",
    ),
)
